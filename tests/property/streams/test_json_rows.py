"""The JSON kernel reads what Python's own parser reads, whatever the order, the blanks and the nesting of names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout

FIELDS: dict[str, str] = {
    "n": "int", "user.id": "int", "user.at.zip": "text", "user.name": "text", "x": "float", "tags[0]": "int",
    "tags[2]": "int", "rows[1].id": "int", "rows[1].sizes[0]": "float",
}  # fmt: skip
Pairs = list[tuple[str, Any]]  # an object, of which names may occur twice
_INNER = {"user": "user.", "user.at": "user.at.", "rows[1]": "rows[1]."}
_LISTS = {"tags": (0, 2), "rows": (1,), "rows[1].sizes": (0,)}

NAMES = st.sampled_from(
    ["n", "user", "id", "at", "zip", "name", "x", "user.id", "other", "tags", "rows", "sizes", "é", 'a"b', "u" * 40]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-20, 20), st.integers(-(1 << 65), 1 << 65), st.floats(allow_nan=False),
    st.sampled_from(["", "a", "é\t\"\\🌍", "x" * 31, "x" * 32, "x" * 70, "12", "NaN"]),
)  # fmt: skip
LISTS = st.lists(SCALARS, max_size=3)
OBJECTS = st.recursive(
    st.lists(st.tuples(NAMES, st.one_of(SCALARS, LISTS)), max_size=3),
    lambda inner: st.lists(st.tuples(NAMES, st.one_of(SCALARS, inner)), max_size=5),
    max_leaves=12,
)
USERS = st.lists(  # what is like rows: often the same names in the same order
    st.tuples(st.sampled_from(["id", "name", "at", "other"]), st.one_of(SCALARS, st.just([("zip", "10115")]))),
    max_size=4,
)
ITEMS = st.lists(
    st.none() | st.lists(st.tuples(st.sampled_from(["id", "sizes", "other"]), st.one_of(SCALARS, LISTS)), max_size=3),
    max_size=4,
)
ROWS = st.one_of(
    OBJECTS,
    st.tuples(LISTS, ITEMS, SCALARS).map(lambda of: [("tags", of[0]), ("o", of[2]), ("rows", of[1])]),
    st.tuples(st.integers(0, 9), SCALARS, USERS).map(
        lambda of: [("n", of[0]), ("o", of[1]), ("user", of[2]), ("x", 1)]
    ),
)


def written(value: Any, blank: str, escaped: bool) -> str:
    """Return JSON of a value, of which lists of pairs are objects."""
    if isinstance(value, list) and (not value or isinstance(value[0], tuple)):
        pairs = (f"{written(name, blank, escaped)}{blank}:{blank}{written(of, blank, escaped)}" for name, of in value)
        return "{" + blank + f"{blank},".join(pairs) + blank + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each, blank, escaped) for each in value) + "]"
    return json.dumps(value, ensure_ascii=escaped)


def expected(pairs: Pairs) -> dict[str, Any] | None:
    """Return the row of an object; None if it is a dead letter."""
    row: dict[str, Any] = dict.fromkeys(FIELDS)
    paths: set[str] = set()
    fits = True

    def visit(pairs: Pairs, prefix: str) -> None:
        nonlocal fits
        for name, value in pairs:
            path = prefix + name
            if path in _INNER and path.count(".") == prefix.count("."):
                fits &= path not in paths and (value is None or (isinstance(value, list) and is_object(value)))
                paths.add(path)
                if isinstance(value, list) and is_object(value):
                    visit(value, _INNER[path])
            elif path in _LISTS and path.count(".") == prefix.count("."):
                is_list = isinstance(value, list) and not is_object(value)
                fits &= path not in paths and (value is None or is_list)
                paths.add(path)
                if is_list:
                    visit([(f"{path}[{k}]", value[k]) for k in _LISTS[path] if k < len(value)], "")
            elif path in FIELDS and (not prefix or "." not in name):
                fits &= path not in paths and is_of(FIELDS[path], value)
                paths.add(path)
                row[path] = float("nan") if value == "NaN" and FIELDS[path] == "float" else value

    visit(pairs, "")
    if not fits:
        return None
    row["x"] = None if row["x"] is None or row["x"] != row["x"] else float(row["x"])
    return row


def is_object(value: Sequence[Any]) -> bool:
    """Whether a list stands for an object, as `written` has it."""
    return not value or isinstance(value[0], tuple)


def is_of(kind: str, value: Any) -> bool:
    """Whether a value may be in a field of that type."""
    if value is None:
        return True
    if kind == "text":
        return isinstance(value, str)
    if kind == "float" and value == "NaN":
        return True
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return (is_int and -(1 << 63) <= value < 1 << 63) if kind == "int" else is_int or isinstance(value, float)


@given(
    st.lists(st.tuples(ROWS, st.sampled_from(["", " ", "\t \r"]), st.booleans()), min_size=1, max_size=12), st.data()
)
def test_rows_are_those_of_another_parser(rows: list[tuple[Pairs, str, bool]], data: st.DataObject) -> None:
    """And dead letters are the others; what rows before have in common with a row changes nothing."""
    names = data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True))
    messages = [Message(at, written(*row).encode()) for at, row in enumerate(rows)]
    table, dead = rows_of(open_format(Layout("json", FIELDS), names), [MessageBatch.of(messages)])
    all_rows, all_dead = rows_of(open_format(Layout("json", FIELDS), list(FIELDS)), [MessageBatch.of(messages)])
    read = [expected(pairs) for pairs, *_ in rows]
    assert all_rows.to_pylist() == [row for row in read if row is not None]
    assert {letter.offset for letter in all_dead} == {at for at, row in enumerate(read) if row is None}
    if not all_dead:  # else a row whose other fields do not fit is read
        assert not dead and table.to_pylist() == [{name: row[name] for name in FIELDS if name in names} for row in read]


def test_a_field_of_a_field_is_refused() -> None:
    """A value is an object or it is none."""
    with pytest.raises(InvalidFormatError, match=r"user\.id is a part of user, which is a field itself"):
        open_format(Layout("json", {"user.id": "int", "user": "text"}), [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"user": 3}', "user.id is no int: 3"),
        ('{"user": [{"id": 1}]}', 'user.id is no int: [{"id": 1}]'),
        ('{"user": {"id": 1}, "user": {"id": 1}}', "user.id is there twice"),
        ('{"user": {"id": 1}, "user.id": 1}', "user.id is there twice"),
        ('{"user": {"id": 1, "id": 1}}', "user.id is there twice"),
        ('{"user": {"at": {"zip": 5}}}', "user.at.zip is no text: 5"),
        ('{"user": {"id": 1}', "not a JSON object, at byte 18"),
        ('{"user": {"id": 1}}}', "not a JSON object, at byte 19"),
        ('{"user": {"id": 1,}}', "not a JSON object, at byte 18"),
        ('{"user": {,}}', "not a JSON object, at byte 10"),
    ],
)
def test_what_is_wrong_inside_an_object_is_named(line: str, reason: str) -> None:
    """By its path, after a row that was right, and before one."""
    good = b'{"user": {"id": 1}}'
    messages = [Message(at, value) for at, value in enumerate((good, line.encode(), good))]
    table, (letter,) = rows_of(open_format(Layout("json", FIELDS), list(FIELDS)), [MessageBatch.of(messages)])
    assert table.column("user.id").to_pylist() == [1, 1]
    assert letter.reason == f"row 1: {reason}" and letter.value == line.encode() + b"\n"
