"""Keys as a person writes them: typed as the columns that the condition computes them from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.key_text import key_columns, key_of_texts
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidKeyError
from springline.spark_jobs.streaming.join.wire import JoinSide

FIELDS = [("k", "int"), ("name", "text"), ("price", "float"), ("other", "int")]
LEFT, RIGHT = JoinSide.LEFT, JoinSide.RIGHT


def condition(on: str) -> Condition:
    """A condition over two relations with the same fields."""
    return Condition.of(Relation.of("l", FIELDS), Relation.of("r", FIELDS), on)


@pytest.mark.parametrize(
    ("on", "texts", "row"),
    [
        ("l.k = r.k", ["-7"], {"k": -7}),
        ("l.name = r.name", ["a, b"], {"name": "a, b"}),
        ("l.price = r.price", ["0.5"], {"price": 0.5}),
        ("l.k = r.k AND l.name = r.name", ["3", "x"], {"k": 3, "name": "x"}),
        ("abs(l.price - r.price) <= 5", ["12"], {"price": 12.0}),
        ("l.k + 1 = r.k", ["6"], {"k": 6}),
    ],
)
def test_a_text_gives_the_key_that_a_row_with_this_value_has(on: str, texts: list[str], row: dict[str, object]) -> None:
    """Of every kind of condition."""
    join = condition(on)
    full = {name: row.get(name) for name, _ in FIELDS}
    types = {"int": pa.int64(), "text": pa.string(), "float": pa.float64()}
    batch = pa.RecordBatch.from_pylist([full], schema=pa.schema([(name, types[kind]) for name, kind in FIELDS]))
    keys, valid = join.keys(LEFT, batch)
    assert valid[0] and key_of_texts(join, LEFT, texts) == int(keys[0])


def test_the_columns_of_a_key_are_those_of_the_condition() -> None:
    """In their declared order, with their types."""
    join = condition("l.name = r.name AND l.k = r.other")
    assert key_columns(join, LEFT) == {"k": "int", "name": "text"}
    assert key_columns(join, RIGHT) == {"name": "text", "other": "int"}


@pytest.mark.parametrize(
    ("on", "texts", "message"),
    [
        ("l.k = r.k", ["x"], "'x' is no value of the column k, which has the type int"),
        ("l.k = r.k", ["1", "2"], "2 values for a key of 1: write the left k"),
        ("l.k = r.k", ["9223372036854775808"], "is no value of the column k"),
        ("l.price = r.price", ["nan"], "has no key"),
    ],
)
def test_what_is_no_key_is_refused_with_the_columns_that_are_expected(on: str, texts: list[str], message: str) -> None:
    """Their number and their types."""
    with pytest.raises(InvalidKeyError, match=message):
        key_of_texts(condition(on), LEFT, texts)
