"""Hostile predicates: whatever a join's texts hold, they name fields of its two sides and known functions, no more."""

from __future__ import annotations

import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.sql.depth import MAX_DEPTH

LEFT = Relation("l", {"a": "int", "name": "text"})
RIGHT = Relation("r", {"a": "int", "name": "text"})
HOSTILE = [
    "l.a IN (SELECT a FROM read_csv('/etc/passwd'))",
    "l.a = (SELECT 1)",
    "EXISTS (SELECT 1)",
    "l.a = r.a; DROP TABLE generation",
    "l.a = r.a UNION SELECT true",
    "SELECT * FROM read_text('/etc/passwd')",
    "COPY (SELECT 1) TO '/tmp/made'",
    "read_text('/etc/passwd') = l.name",
    "getenv('HOME') = l.name",
    "l.name = r.name AND x.name = 'x'",
    "main.l.a = r.a",
    "l.a = $1",
    "l.name LIKE (SELECT '%')",
    "l.name = '\0' AND l.a = r.a",
    "l.name = '\ud800' AND l.a = r.a",
    f"l.a = r.a AND l.a > {'9' * 5_000}",
    f"l.a = r.a AND round(l.a, {'9' * 30}) > 1",
    "l.a = r.a --",
    "",
]


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "l.a = r.a --"])
def test_a_predicate_asks_of_its_sides_and_of_nothing_else(text: str) -> None:
    """No file, no statement, no other function; the error says so in few words."""
    with pytest.raises(InvalidConditionError) as raised:
        Condition.of(LEFT, RIGHT, text, ["l.a"])
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("text", HOSTILE)
def test_a_column_of_the_results_asks_of_nothing_else_either(text: str) -> None:
    """As in the predicate."""
    with pytest.raises(InvalidConditionError):
        Condition.of(LEFT, RIGHT, "l.a = r.a", [text])


@pytest.mark.parametrize("many", [MAX_DEPTH + 1, 9_000])
@pytest.mark.parametrize("form", ["({}) = r.a", "-{} = r.a", "abs({}) = r.a"])
def test_a_predicate_is_not_nested_deeper_than_a_parser_can_go(form: str, many: int) -> None:
    """In words, instead of Python's recursion limit."""
    opening, closing = form.replace(" = r.a", "").split("{}")
    with pytest.raises(InvalidConditionError, match="nested"):
        Condition.of(LEFT, RIGHT, f"{(opening + ' ') * many}l.a{closing * many} = r.a", ["l.a"])


@pytest.mark.parametrize("alias", ["", "l r", "l;", "l'", "../l", "l\0"])
def test_a_side_is_called_by_a_plain_name(alias: str) -> None:
    """It stands before the names of columns."""
    with pytest.raises(InvalidRelationError, match="cannot be the alias"):
        Relation(alias, {"a": "int"})
