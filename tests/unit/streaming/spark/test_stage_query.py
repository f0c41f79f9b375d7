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


@pytest.mark.parametrize(
    ("ends", "message", "expected_left"),
    [
        ([UNREACHED] * 9, "terminated", 4),  # no worker ever starts on this machine: abandoned in the end
        ([OURS, None], r"^words\[0\]: round 7 differs$", 1),  # at once, by the innermost words of ours
        (["", None], r"words\.split ended by itself", 1),  # it was not asked for
    ],
)
def test_what_no_restart_helps_against_is_an_error(ends: list[str | None], message: str, expected_left: int) -> None:
    """With Spark's message, unless there is one of ours."""
    query, left = started(*ends)
    with pytest.raises(StreamError, match=message):
        for _ in ends:
            query.check()
    assert len(left) == expected_left
