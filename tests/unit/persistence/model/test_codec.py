"""Values as JSON in files and messages: what comes back, and what is refused, naming the place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.model.codec import Codec, from_json_value, to_json_value


class Side(IntEnum):
    """As those of a join."""

    LEFT = 0
    RIGHT = 1


@dataclass(frozen=True, slots=True)
class Value:
    """Something of every kind."""

    number: int
    side: Side
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    share: float | None = None


VALUES: Codec[Value] = Codec(Value, 3, "a value", "make it anew")
values = st.builds(
    Value,
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from(Side),
    st.dictionaries(st.integers(0, 99), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    st.lists(st.text()).map(tuple),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


@given(values)
def test_a_value_comes_back_as_it_was(value: Value) -> None:
    """From bytes and from plain values; an equal value makes the same bytes."""
    content = VALUES.encode(value)
    decoded = VALUES.decode(memoryview(content), "here")
    assert decoded == value and VALUES.encode(decoded) == content
    assert from_json_value(Value, to_json_value(value), "here") == value
    assert json.loads(json.dumps(to_json_value(value))) == to_json_value(value)


@pytest.mark.parametrize(
    ("content", "expected_message"),
    [
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"[" * 100_000, "here.json: a value cannot be read"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"form":3}', "missing required field `value`"),
        (b'{"form":3,"value":{"number":"7","side":0}}', r"Expected `int`, got `str` - at `\$.value.number`"),
        (b'{"form":3,"value":{"number":7}}', r"missing required field `side` - at `\$.value`"),
        (b'{"form":3,"value":{"number":7,"side":2}}', r"Invalid enum value 2 - at `\$.value.side`"),
        (b'{"form":3,"value":{"number":7,"side":0,"ranges":{"a":[1,2]}}}', r"at `key` in `\$.value.ranges`"),
    ],
)
def test_what_is_no_such_value_is_refused_with_the_place(content: bytes, expected_message: str) -> None:
    """And with the field."""
    with pytest.raises(DecodeError, match=expected_message) as raised:
        VALUES.decode(content, "here.json")
    assert str(raised.value).startswith("here.json: a value cannot be read") and not isinstance(
        raised.value, FormatVersionError
    )


@pytest.mark.parametrize("content", [b'{"form":4,"value":{"number":7,"side":0}}', b'{"form":4,"value":["new"]}'])
def test_what_another_version_wrote_is_refused_with_the_remedy(content: bytes) -> None:
    """Whether it has the shape that is known or another."""
    with pytest.raises(
        FormatVersionError, match=r"here\.json: a value has format 4, and .* reads format 3: make it anew"
    ):
        VALUES.decode(content, "here.json")


def test_plain_values_of_another_shape_are_refused_with_the_place() -> None:
    """As the offset of a Spark query."""
    with pytest.raises(DecodeError, match=r"the offset cannot be read: Expected `int`, got `str` - at `\$.number`"):
        from_json_value(Value, {"number": "7", "side": 0}, "the offset")


def test_numbers_of_numpy_are_numbers() -> None:
    """As steps hand them out."""
    codec: Codec[dict[str, float]] = Codec(dict[str, float], 1, "gauges", "")
    content = codec.encode({"a": np.float64(1.5)})
    assert codec.decode(content, "here") == to_json_value({"a": np.float64(1.5)}) == {"a": 1.5}
    with pytest.raises(TypeError, match="a ndarray cannot be represented in JSON"):
        codec.encode({"a": np.ones(2)})  # type: ignore[dict-item]
