"""Lines of JSON are the same bytes, whether msgspec or Polars writes them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.json_lines import encode_large, encode_small, json_lines
from tests.support.examples import examples

_EDGES = [0.0, -0.0, 1e-7, 1e-6, 9.99e-6, 1e-5, 1.2345e-5, 1e15, 9999999999999998.0, 1e16, -1e16, 1e17, 5e-324, 1e300]
_FLOATS = st.floats() | st.sampled_from(_EDGES) | st.floats(1e-8, 1e-3) | st.floats(1e14, 1e18)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.characters(max_codepoint=0x7F))
_MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_TIMES = _MICROS | _MICROS.map(lambda micros: micros // 1_000 * 1_000).filter(lambda micros: micros >= 0)
_VALUES: dict[pa.DataType, st.SearchStrategy] = {
    **{
        kind: st.integers(-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{kind: st.integers(0, (1 << kind.bit_width) - 1) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    pa.float64(): _FLOATS,
    pa.bool_(): st.booleans(),
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.timestamp("us"): _TIMES,
    pa.timestamp("us", "UTC"): _TIMES,
    pa.date32(): st.dates(),
    pa.null(): st.none(),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw rows of all types of results, nulls among them, as a part of a longer batch."""
    rows = draw(st.integers(0, 6))
    kinds = draw(st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=5))
    names = draw(st.lists(_TEXTS.filter(bool), min_size=len(kinds), max_size=len(kinds), unique=True))
    nullable = [draw(st.booleans()) for _ in kinds]
    columns = [_VALUES[kind] | st.none() if may else _VALUES[kind] for kind, may in zip(kinds, nullable, strict=True)]
    arrays = [
        pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)
        for kind, values in zip(kinds, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names).slice(draw(st.integers(0, rows)))


def is_finite(batch: pa.RecordBatch) -> bool:
    """Whether JSON has all of its numbers."""
    return all(np.isfinite(column.drop_null()).all() for column in batch.columns if pa.types.is_floating(column.type))


@settings(max_examples=examples(500), deadline=None)
@given(batches().filter(is_finite))
@example(pa.record_batch({"text": ["".join(map(chr, range(0x3000))) + "\ue000\uffff\U0010ffff", None]}))
@example(pa.record_batch({"float": pa.array([*_EDGES, None])}))
def test_msgspec_writes_the_bytes_that_polars_writes(batch: pa.RecordBatch) -> None:
    """So the size of a batch does not show in its lines."""
    assert encode_small(batch) == encode_large(batch)


@pytest.mark.parametrize("seed", range(3))
def test_many_floats_are_the_same_digits(seed: int) -> None:
    """Both write the shortest digits that are read as the same number: any bits, and numbers of common sizes.

    None of so many rows is missing.
    """
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 64, 20_000, dtype=np.uint64).view(np.float64)
    common = 10 ** random.uniform(-8, 18, 20_000)
    rounded = random.integers(-(10**9), 10**9, 20_000) / 1e4
    numbers = np.concatenate([bits, common, rounded])
    batch = pa.record_batch({"float": numbers[np.isfinite(numbers)]})
    assert encode_small(batch) == encode_large(batch) == json_lines(batch)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.timestamp("ns")),
        pa.array([253_402_300_800_000_000], pa.timestamp("us")),
        pa.array([-1_000_000], pa.date32()),
        pa.array(["a"]).dictionary_encode(),
    ],
    ids=str,
)
def test_polars_writes_what_msgspec_cannot(column: pa.Array) -> None:
    """Other types, and years that have not four digits."""
    batch = pa.RecordBatch.from_arrays([column, pa.array([1])], ["column", "number"])
    assert encode_small(batch) is None
    assert json_lines(batch) == encode_large(batch) != b""


def test_polars_names_columns_without_a_name() -> None:
    """So their rows are the same in batches of every size."""
    assert json_lines(pa.RecordBatch.from_arrays([pa.array([1])], [""])) == b'{"column_0":1}\n'


@pytest.mark.parametrize("rows", [1, 1_000], ids=["small", "large"])
def test_numbers_that_json_lacks_are_texts_in_lines_of_every_size(rows: int) -> None:
    """Also in narrow floats and in lists, which keep their value; null stays null, and every JSON parser reads it."""
    values = [float("inf"), float("-inf"), float("nan"), None, 0.5] * rows
    kinds = [pa.float64(), pa.float32(), pa.float16()]
    columns = [pa.array(values, kind) for kind in kinds] + [pa.array([[{"x": value}] for value in values])]
    lines = json_lines(pa.RecordBatch.from_arrays(columns, ["double", "float", "half", "list"])).splitlines()

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    texts = ["Infinity", "-Infinity", "NaN", None, 0.5] * rows
    expected = [{**dict.fromkeys(["double", "float", "half"], text), "list": [{"x": text}]} for text in texts]
    assert [json.loads(line, parse_constant=refuse) for line in lines] == expected
