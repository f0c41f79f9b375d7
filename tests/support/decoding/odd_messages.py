"""Messages drawn at random: rows in every form, and the same with bits flipped, cut short, spliced, or odd bytes in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NAMES = ("time", "sip", "kind", "bytes", "load")
T = 1_700_000_040
Row = tuple[Any, ...]

_texts = st.one_of(
    st.none(),
    st.sampled_from(["", " ", '"', '""', ",", "a\nb", "\r", "é", "\U0001f600", "null", "}", "\\", 'a "b", c', "'"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)
rows = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 300).map(lambda t: float(T + t)), st.none()),
        _texts,
        _texts,
        st.one_of(st.none(), st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    min_size=1,
    max_size=5,
)
_PARTS = [
    b"null", b"\xff", b"\0", b'"', b'""', b"\n", b"\r\n", b",", b"{", b"}", b"[" * 2_000, b'{"a":' * 1_100, b"\\ud800",
    b"\\u00", b"\\", b"1e999", b"-", b"9223372036854775808", b'"time":1,', b"NaN", b"\xed\xa0\x80", b"\xf0\x9f", b":",
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0\0\0\0\0", b"\xef\xbb\xbf",
]  # fmt: skip


def as_csv(rows: Sequence[Row]) -> bytes:
    """As RFC 4180 has it, each text in quotes; what is null is nothing."""
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows).encode()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else repr(value)


def as_json(rows: Sequence[Row], *, ascii_only: bool = True) -> bytes:
    """An object a line, with an unused field."""
    objects = ({**dict(zip(NAMES, row, strict=True)), "more": {"a": [row[1], None, {}]}} for row in rows)
    return "\n".join(json.dumps(each, ensure_ascii=ascii_only) for each in objects).encode()


def as_arrow(rows: Sequence[Row], *, dictionary: bool = False, views: bool = False, codec: str | None = None) -> bytes:
    """A batch, with an unused column."""
    kind = pa.dictionary(pa.int8(), pa.string()) if dictionary else pa.string_view() if views else pa.string()
    kinds = (pa.float64(), pa.string(), kind, pa.int64(), pa.float64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    more = pa.array([[row[1], "b"] for row in rows], pa.list_(pa.string()))
    batch = pa.RecordBatch.from_arrays([*columns, more], [*NAMES, "more"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(0, 1))
    return bytes(sink.getvalue())


WRITERS: Mapping[str, Sequence[Callable[[Sequence[Row]], bytes]]] = {
    "csv": [as_csv],
    "json": [as_json, lambda rows: as_json(rows, ascii_only=False)],
    "arrow": [
        as_arrow,
        lambda rows: as_arrow(rows, dictionary=True),
        lambda rows: as_arrow(rows, views=True),
        lambda rows: as_arrow(rows, codec="lz4"),
        lambda rows: as_arrow(rows, codec="zstd"),
    ],
}


@st.composite
def damaged(draw: st.DrawFn, form: str) -> bytes:
    """A valid message with one to four kinds of damage; or bytes that were none ever."""
    value = bytearray(draw(st.sampled_from(WRITERS[form]))(draw(rows)))
    for _ in range(draw(st.integers(0, 4))):
        at, to = sorted((draw(st.integers(0, len(value))), draw(st.integers(0, len(value)))))
        match draw(st.integers(0, 5)):
            case 0 if value:
                value[min(at, len(value) - 1)] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del value[to:]
            case 2:
                del value[at:to]
            case 3:
                value[at:at] = value[at:to]
            case 4:
                part = draw(st.sampled_from(_PARTS))
                value[at : at + len(part)] = part
            case _:
                value[at:at] = draw(st.one_of(st.sampled_from(_PARTS), st.binary(max_size=8)))
    return bytes(value)
