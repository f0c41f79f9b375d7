"""The newest results, read back from the real Kafka, between the markers of transactions."""

from __future__ import annotations

import json
import uuid

import pytest

from springline.spark_jobs.streaming.errors import UnknownTopicError
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.newest_results import newest_rows
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from tests.support.waiting import until


def test_the_newest_rows_of_rounds_come_back_in_order(log: Kafka) -> None:
    """Over two units, by another connection than the one that wrote them, and for a query that seldom emits."""
    topic = f"t-{uuid.uuid4().hex}.results"
    log.create({topic: 2})
    for number in range(1, 101):
        for unit in range(2):
            query = "seldom" if number == 3 else "often"
            row = {"query": query, "window_end": f"T{number:03}", "n": 2 * number + unit}
            headers = Stamp(1, unit, number, 0).header() | {"query": query.encode()}
            letter = OutgoingRecord(topic, unit, json.dumps(row).encode() + b"\n", headers)
            log.publish(f"{topic}-{unit}", (1, number), [letter], [(topic, unit, unit)])
    until(
        lambda: [row["n"] for row in newest_rows(log, topic, 3)] == [199, 200, 201]
    )  # commits are seen a moment later
    assert [row["n"] for row in newest_rows(log, topic, 1_000, "often")] == [2, 3, 4, 5, *range(8, 202)]
    assert [row["n"] for row in newest_rows(log, topic, 1, "seldom")] == [7]
    assert newest_rows(log, topic, 1, "never") == []


def test_results_of_a_job_that_never_ran_are_an_error_that_names_the_topic(log: Kafka) -> None:
    """It is the first start that makes it."""
    with pytest.raises(UnknownTopicError, match=r"never\.results does not exist"):
        newest_rows(log, "never.results", 1)
