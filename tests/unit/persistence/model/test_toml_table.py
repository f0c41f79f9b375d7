"""Tables of TOML files: the errors of a wrong table, and which keys a class declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from springline.persistence.model.toml_table import (
    Count,
    InvalidTableError,
    Name,
    Seconds,
    TomlTable,
    keys_of,
    read_table,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(TomlTable, frozen=True, kw_only=True):
    fields: tuple[tuple[str, Literal["int", "text"]], ...]
    count: Count = 2
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5


class Outer(TomlTable, frozen=True, kw_only=True, rename={"seconds": "for"}):
    topic: Annotated[Name, Meta(description="topic that is read")]
    seconds: Annotated[Seconds, Meta(description="duration")] = 5.0
    inner: Inner | None = None
    tracking: bool | Inner = True
    colour: Colour = Colour.RED
    labels: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    weights: dict[str, tuple[float, ...]] = {}  # noqa: RUF012


FIELDS = 'a list, each item [a text, "int" or "text"]'


def inner(**keys: object) -> dict[str, object]:
    """A table with these keys in its table `inner`."""
    return {"topic": "a", "inner": keys}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "expected a table, got 3"),
        ({}, "the key topic is missing; expected a text that is not empty: topic that is read"),
        ({"topic": ""}, "topic = ''; expected a text that is not empty"),
        ({"topic": ["x" * 200]}, f"topic = ['{'x' * 98}…; expected a text that is not empty"),
        ({"topic": "a", "for": float("inf")}, "for = inf; expected a finite number above 0"),
        ({"topic": "a", "weights": {"x": [0, float("-inf")]}}, "weights.x[1] = -inf; expected a finite number"),
        ({"topic": "a", "for": float("nan")}, "for = nan; expected a finite number above 0"),
        (
            {"topic": "a", "secs": 5},
            "unknown key secs; the keys are colour, for, inner, labels, topic, tracking, weights",
        ),
        ({"topic": "a", "colour": "green"}, 'colour = \'green\'; expected "red" or "blue"'),
        ({"topic": "a", "tracking": 3}, "tracking = 3; expected true or false or a table"),
        ({"topic": "a", "labels": {"x": 1}}, "labels = {'x': 1}; expected a table, each value a text"),
        (inner(), f"inner: the key fields is missing; expected {FIELDS}"),
        (inner(fields=[["k", "ant"]]), f"inner.fields[0][1] = 'ant'; expected {FIELDS}"),
        (inner(fields=[], count=True), "inner.count = True; expected a whole number of at least 1"),
        (inner(fields=[], share=1), "inner.share = 1; expected a number from 0 to below 1"),
        (inner(fields=[], cuont=1), "inner: unknown key cuont; did you mean count?; the keys are count, fields, share"),
    ],
)
def test_a_wrong_table_is_refused_with_key_value_and_what_is_expected(table: Any, message: str) -> None:
    """The place comes first."""
    with pytest.raises(InvalidTableError) as raised:
        read_table(Outer, table, "f")
    assert str(raised.value) == f"f: {message}"


def test_what_is_missing_has_its_default() -> None:
    """An integer is a valid float."""
    table = read_table(Outer, {"topic": "a", "for": 7}, "f")
    assert (table.seconds, table.tracking, table.colour, table.inner) == (7.0, True, Colour.RED, None)


def test_the_keys_of_a_class_are_described() -> None:
    """Those without a default first."""
    described = [(key.name, key.expected, key.default, key.description, key.table) for key in keys_of(Outer)]
    assert described[:2] == [
        ("topic", "a text that is not empty", "required", "topic that is read", None),
        ("for", "a finite number above 0", "5.0", "duration", None),
    ]
    assert described[3] == ("tracking", "true or false or a table", "true", "", Inner)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["fields", "count", "a.b", ""]), inner),
    max_leaves=8,
)


@given(table=st.dictionaries(st.sampled_from(["topic", "for", "inner", "tracking", "colour", "labels", "x"]), _VALUES))
def test_any_table_is_read_or_refused(table: dict[str, Any]) -> None:
    """Nothing else is raised."""
    try:
        assert read_table(Outer, {"topic": "a", **table}, "f").topic
    except InvalidTableError as error:
        assert str(error).startswith("f: ")
