"""Predicates of joins: what they are taken for, which rows and pairs they hold for, what is said of bad ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.key_text import key_columns, key_of_texts
from springline.spark_jobs.streaming.join.condition.keys import BandKey, FloatKey, HashKey, IntegerKey, JoinKeys
from springline.spark_jobs.streaming.join.condition.predicate import Names, Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidKeyError, InvalidRelationError
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, JoinSide, KeyBand
from tests.support.joins.join_tasks import JoinTasks, rows_of

LEFT = Relation("l", {"a": "int", "b": "int", "x": "float", "name": "text"})
RIGHT = Relation("r", {"a": "int", "c": "int", "y": "float", "name": "text"})


def pairs(where: str, left: list[Any], right: list[Any]) -> int:
    """How many pairs a unit finds of one column of each side."""
    join_tasks = JoinTasks(Condition.of(LEFT, RIGHT, where, ["l.a AS one"]))
    row = {"a": None, "b": None, "c": None, "x": None, "y": None, "name": None}
    (own,), (other,) = ([name for name in names if f"{alias}.{name}" in where] for alias, names in
                        (("l", LEFT.fields), ("r", RIGHT.fields)))  # fmt: skip
    lefts, rights = [{**row, own: value} for value in left], [{**row, other: value} for value in right]
    rows_by_side = [[{name: each[name] for name in side.fields} for each in rows]
            for side, rows in ((LEFT, lefts), (RIGHT, rights))]  # fmt: skip
    join_tasks.route([{JoinSide.LEFT: rows_by_side[0], JoinSide.RIGHT: rows_by_side[1]}])
    join_tasks.finish()
    return join_tasks.pairs.total()


def test_a_field_of_an_object_is_a_path() -> None:
    """After the alias of its side, or alone where one side has it; in quotes too."""
    left = Relation("l", {"user.id": "int", "a": "int"})
    right = Relation("r", {"of.user.at.id": "int", "a": "int", "_key": "text"})
    for where in ("l.user.id = r.of.user.at.id", """user.id = of.user.at.id AND l."user.id" > 0 AND _key > 'k'"""):
        condition = Condition.of(left, right, where, ["l.user.id AS one", "r.of.user.at.id", "l.a"])
        assert type(condition.join_keys) is IntegerKey
        assert condition.fields(JoinSide.LEFT) == ("user.id", "a")
        assert "of.user.at.id" in condition.fields(JoinSide.RIGHT)
    for where, message in (
        ("l.user.name = r.a", "there is no field 'user.name' in l"),
        ("x.user.id = r.a", "there is no side 'x.user'"),
        ("l.a = r.b.c.d.e", "there is no"),
    ):
        with pytest.raises(InvalidConditionError, match=message):
            Condition.of(left, right, where)


@pytest.mark.parametrize(
    ("where", "kind", "reach", "checks"),
    [
        ("l.a = r.c", IntegerKey, KeyBand(0, 0), 0),
        ("l.a + 1 = r.c AND l.x > 1", IntegerKey, KeyBand(0, 0), 0),
        ("l.x = r.a", FloatKey, KeyBand(0, 0), 0),
        ("l.name = r.name", HashKey, KeyBand(0, 0), 1),
        ("l.a = r.a AND l.b = r.c AND l.x <> r.y", HashKey, KeyBand(0, 0), 3),
        ("abs(l.a - r.a) <= 1 AND l.b < r.c", IntegerKey, KeyBand(-1, 1), 1),
        ("abs(r.a - l.a) < 3", IntegerKey, KeyBand(-2, 2), 0),
        ("l.a BETWEEN r.a - 5 AND r.a + 7", IntegerKey, KeyBand(-7, 5), 0),
        ("l.a >= r.a - 5 AND r.a + 7 >= l.a", IntegerKey, KeyBand(-7, 5), 0),
        ("abs(l.x - r.y) <= 0.5", BandKey, KeyBand(-1, 1), 1),
        ("l.a < r.a", IntegerKey, KeyBand(1, None), 0),
        ("l.a - r.a >= 4", IntegerKey, KeyBand(None, -4), 0),
        ("r.y <= l.x", FloatKey, KeyBand(None, 0), 0),
        ("l.a < r.a AND l.b = r.c AND abs(l.x - r.y) < 1", IntegerKey, KeyBand(0, 0), 2),
    ],
)
def test_a_predicate_makes_the_best_key_it_can(where: str, kind: type[JoinKeys], reach: KeyBand, checks: int) -> None:
    """Equality before a band before an order; what the key says exactly is not checked again."""
    condition = Condition.of(LEFT, RIGHT, where)
    assert (type(condition.join_keys), condition.key_band, len(condition.checks)) == (kind, reach, checks)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("l.q = r.a", "line 1, column 1: there is no field 'q' in l (it has a, b, x, name)"),
        ("z.a = r.a", "there is no side 'z'; the sides are l and r"),
        ("a = r.c", "both sides have a field 'a': write l.a or r.a"),
        ("l.a = r.name", "compares int with text"),
        ("l.a = r.c OR l.b = r.a", "it would need to compare all pairs"),
        ("abs(l.name - r.a) <= 1", "needs numbers, and has text"),
        ("l.a = ", "not SQL: something is missing"),
        ("l.a + r.a", "it is not a condition"),
        ("l.a = r.a; l.b = r.c", "write one condition"),
        ("l.a = foo(r.a)", "is not supported; supported are + - *"),
        ("l.a <> r.a", "it would need to compare all pairs; add at least one of these by AND: l.a = r.b"),
        ("l.name < r.name", "it would need to compare all pairs"),
        ("l.a = 1", "it would need to compare all pairs"),
        ("l.a < r.a AND l.a > r.a", "no pair can match"),
        ("abs(l.a - r.a) <= -1", "no pair can match"),
        ("l.a < 9223372036854775808", "does not fit 64 bits"),
        ("l.a < r.a + 9223372036854775807 + 3", "beyond 64 bits"),
    ],
)
def test_a_predicate_that_cannot_be_answered_is_refused_in_words(where: str, message: str) -> None:
    """The predicate is named, and what is wrong with it."""
    with pytest.raises(InvalidConditionError) as raised:
        Condition.of(LEFT, RIGHT, where)
    assert message in str(raised.value)
    assert repr(where) in str(raised.value)


@pytest.mark.parametrize(
    ("select", "message"),
    [(["l.q"], "no field 'q'"), (["l.a + 1"], "name it with AS"), (["l.a", "r.a"], "duplicate column 'a'")],
)
def test_columns_that_cannot_be_selected_are_refused(select: list[str], message: str) -> None:
    """As conditions are."""
    with pytest.raises(InvalidConditionError, match=message):
        Condition.of(LEFT, RIGHT, "l.a = r.a", select)


def test_sides_that_contradict_themselves_are_refused() -> None:
    """Each with what is wrong."""
    for make, message in (
        (lambda: Relation("l", {"a": "varchar"}), "write boolean, int, float"),
        (lambda: Relation("my side", {"a": "int"}), "cannot be the alias"),
        (lambda: Names(LEFT, LEFT), "both sides of the join have the alias 'l'"),
        (lambda: Relation.of("l", [("a", "int")] * 2), "declared twice"),
    ):
        with pytest.raises(InvalidRelationError, match=message):
            make()


def test_only_what_is_needed_is_read_and_only_what_pairs_show_is_carried() -> None:
    """Filters and keys are worked out before rows are sent."""
    condition = Condition.of(LEFT, RIGHT, "l.a = r.c AND l.b > 3 AND l.x < r.y", ["r.name AS who", "l.x * 2 AS twice"])
    assert condition.fields(JoinSide.LEFT) == ("a", "b", "x")
    assert condition.carried_schema(JoinSide.LEFT).names == ["l.x"]
    assert condition.carried_schema(JoinSide.RIGHT).names == ["r.y", "r.name"]
    assert condition.schema.names == ["who", "twice"]
    assert Condition.from_json(condition.as_json()) == condition


@pytest.mark.parametrize(
    ("where", "left", "right"),
    [
        ("l.a = r.c AND l.a <> 7", [], []),
        ("abs(l.a - r.c) <= 1", [], []),
        ("l.a < r.c AND l.a * r.c > 9", [], []),
        ("l.a + 1 = r.c", ["l.a"], []),
        ("l.a = r.y", ["l.a"], ["r.c"]),
        ("l.a = r.c AND l.b = r.c", ["l.a"], ["r.c"]),
    ],
)
def test_a_whole_number_that_is_the_key_is_not_carried_beside_it(where: str, left: list[str], right: list[str]) -> None:
    """It is evaluated where the key is; one that the key is worked out from is carried."""
    condition = Condition.of(LEFT, RIGHT, where, ["l.a", "r.c AS other"])
    for side, name, carried in ((JoinSide.LEFT, "l.a", left), (JoinSide.RIGHT, "r.c", right)):
        assert [each for each in condition.carried_schema(side).names if each == name] == carried
        assert condition.output_columns(side) == {name: name if carried else "key"}
        assert condition.tuple_schema(side).names == ["key", "seq", "unit", *condition.carried_schema(side).names]


def test_all_columns_come_out_where_none_is_selected() -> None:
    """Those that both sides have are called after their side."""
    names = Condition.of(LEFT, RIGHT, "l.a = r.a").schema.names
    assert names == ["l_a", "b", "x", "l_name", "r_a", "c", "y", "r_name"]


def test_rows_without_a_key_and_rows_that_a_filter_drops_are_counted() -> None:
    """Null and NaN match nothing; a filter that is null is not true."""
    condition = Condition.of(LEFT, RIGHT, "l.x = r.y AND l.a > 1")
    rows = rows_of(LEFT, [{"x": x, "a": a} for x, a in ((1.0, 2), (None, 1), (math.nan, None), (-0.0, 3))])
    keys, valid = condition.keys(JoinSide.LEFT, rows)
    assert valid.tolist() == [True, False, False, True]
    assert keys[3] == 0  # as that of 0.0
    assert condition.filter(JoinSide.LEFT, rows).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("where", "left", "right", "expected"),
    [
        ("abs(l.a - r.c) <= 1", [LEAST, GREATEST], [LEAST, LEAST + 1, GREATEST - 1, GREATEST], 4),
        ("l.a + 1 = r.c", [GREATEST, -1], [LEAST, 0], 1),
        ("l.a < r.c", [LEAST, GREATEST], [LEAST, GREATEST], 1),
        ("l.a - r.c <= -5", [LEAST, GREATEST], [LEAST, LEAST + 5, GREATEST], 2),
        ("r.c - l.a BETWEEN 9223372036854775806 AND 9223372036854775807", [LEAST, 0, 1], [GREATEST, 0, -1, -2], 4),
        ("l.a * 2 = r.c", [1 << 62, -(1 << 62), 3], [LEAST, 6], 2),
        ("l.a = r.y", [GREATEST, (1 << 53) + 1], [2.0**63, 2.0**53], 2),
        ("l.x = r.y", [0.0, math.nan, math.inf], [-0.0, math.nan, math.inf], 2),
        ("l.x < r.y", [-0.0, -math.inf, math.nan], [0.0, math.inf, math.nan], 3),
        ("abs(l.x - r.y) <= 1", [1e300, math.inf, -math.inf, math.nan], [1e300, math.inf, 0.5], 1),
        ("abs(l.x - r.y) <= 0.001", [1.7e15, 1.7e15 + 1], [1.7e15, 1.7e15 + 2], 1),
        ("l.name = r.name", ["", "a", "ab", None], ["", "ab", "b", None], 2),
        ("l.a = r.c AND l.a + r.c > 0", [GREATEST, 1], [GREATEST, 1], 1),
    ],
)
def test_extreme_values_match_as_others_do(where: str, left: list[Any], right: list[Any], expected: int) -> None:
    """Whole numbers do not wrap around, -0.0 is 0.0, NaN matches nothing, 0 is no empty text."""
    assert pairs(where, left, right) == expected


def test_hashes_that_meet_make_no_false_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that were hashed to a key are compared again."""
    monkeypatch.setattr(
        "springline.spark_jobs.streaming.join.condition.keys.mix_in_texts", lambda hashes, offsets, text: None
    )
    condition = Condition.of(LEFT, RIGHT, "l.name = r.name")
    keys, _ = condition.keys(JoinSide.LEFT, rows_of(LEFT, [{"name": "a"}, {"name": "b"}]))
    assert keys[0] == keys[1]
    assert pairs("l.name = r.name", ["a", "b"], ["b", "c"]) == 1


def test_buckets_hold_whatever_may_differ_by_the_band() -> None:
    """Also where doubles are rounded: a candidate that is true is in the same bucket or in one beside it."""
    source = np.random.default_rng(7)
    condition = Condition.of(LEFT, RIGHT, "l.x BETWEEN r.y - 0.1 AND r.y + 0.1")
    for scale in (1.0, 1e3, 1e9, 1e13, 1e16):
        y = source.uniform(-scale, scale, 20_000)
        x = y + source.choice([-0.1, 0.1, 0.05], y.size)
        near = (x >= y - 0.1) & (x <= y + 0.1)
        assert near.any()
        lefts, rights = (rows_of(of, [{name: value} for value in values.tolist()])
                         for of, name, values in ((LEFT, "x", x), (RIGHT, "y", y)))  # fmt: skip
        differences = condition.keys(JoinSide.RIGHT, rights)[0] - condition.keys(JoinSide.LEFT, lefts)[0]
        assert np.abs(differences[near]).max() <= 1


# ---- keys as a person writes them

KEY_FIELDS = [("k", "int"), ("name", "text"), ("price", "float"), ("other", "int")]


def condition_on(on: str) -> Condition:
    """A condition over two relations with the same fields."""
    return Condition.of(Relation.of("l", KEY_FIELDS), Relation.of("r", KEY_FIELDS), on)


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
    join = condition_on(on)
    full = {name: row.get(name) for name, _ in KEY_FIELDS}
    types = {"int": pa.int64(), "text": pa.string(), "float": pa.float64()}
    batch = pa.RecordBatch.from_pylist([full], schema=pa.schema([(name, types[kind]) for name, kind in KEY_FIELDS]))
    keys, valid = join.keys(JoinSide.LEFT, batch)
    assert valid[0] and key_of_texts(join, JoinSide.LEFT, texts) == int(keys[0])


def test_the_columns_of_a_key_are_those_of_the_condition() -> None:
    """In their declared order, with their types."""
    join = condition_on("l.name = r.name AND l.k = r.other")
    assert key_columns(join, JoinSide.LEFT) == {"k": "int", "name": "text"}
    assert key_columns(join, JoinSide.RIGHT) == {"name": "text", "other": "int"}


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
        key_of_texts(condition_on(on), JoinSide.LEFT, texts)
