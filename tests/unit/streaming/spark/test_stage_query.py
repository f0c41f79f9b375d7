"""A stage's query is restarted where Spark did not reach its Python worker; any other end is reported."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.spark.stage_query import StageQuery

UNREACHED = (
    "[STREAM_FAILED] Query [id = 7] terminated\norg.apache.spark.SparkException: Python worker failed to connect back."
)
OURS = (
    "[STREAM_FAILED] Query\n  springline.spark_jobs.streaming.errors.NondeterminismError: "
    "words[0]: round 7 differs\n  at java.base"
)


class Ended:
    """A query of Spark that runs, or that something ended."""

    name = "words.split"

    def __init__(self, error: str | None) -> None:
        self.isActive = error is None
        self._error = error

    def exception(self) -> Exception | None:
        return Exception(self._error) if self._error else None


def started(*ends: str | None) -> tuple[StageQuery, list[Any]]:
    """A stage's query that ends so, one begin after another, and those beginnings that are left."""
    left = [Ended(error) for error in ends]
    return StageQuery(lambda: cast(StreamingQuery, left.pop(0))), left


def test_it_is_restarted_where_its_worker_was_not_reached() -> None:
    """As often as it takes, below the limit; then it runs."""
    query, left = started(UNREACHED, UNREACHED, None, None)
    for _ in range(5):
        query.check()
    assert len(left) == 1


def test_it_is_abandoned_in_the_end() -> None:
    """A machine on which no worker ever starts is an error with Spark's message."""
    query, left = started(*[UNREACHED] * 9)
    with pytest.raises(StreamError, match="terminated"):
        for _ in range(9):
            query.check()
    assert len(left) == 4


def test_any_other_error_is_raised_at_once() -> None:
    """By the innermost words of ours."""
    query, left = started(OURS, None)
    with pytest.raises(StreamError, match=r"^words\[0\]: round 7 differs$"):
        query.check()
    assert len(left) == 1


def test_an_end_without_a_reason_is_reported() -> None:
    """It was not asked for."""
    query, _ = started("")
    with pytest.raises(StreamError, match=r"words\.split ended by itself"):
        query.check()
