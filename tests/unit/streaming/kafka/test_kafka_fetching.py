"""What fetching from Kafka reports where no messages come; the client is a stand-in that has none."""

from __future__ import annotations

import pytest

from springline.spark_jobs.streaming.errors import LogUnavailableError, MessagesLostError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.consumer import ConsumerPool
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds


class Silent:
    """A consumer to which nothing comes."""

    def assign(self, places: object) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, count: int, seconds: float) -> list[object]:
        return []


def silent(monkeypatch: pytest.MonkeyPatch, high: int) -> ConsumerPool:
    """Readers of a log of one unit that ends at an offset, and sends nothing."""
    readers = ConsumerPool(Cluster("nowhere"), 0.0, lambda topic: {0: OffsetBounds(0, high)})
    monkeypatch.setattr(readers, "_consumer", lambda waits: Silent())
    return readers


def test_a_log_that_became_shorter_is_not_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first case waiting does not help: what was there is gone."""
    expected = r"rows\[0\]: the messages at offsets 5 to 9 are no longer available; available: 0 to 7"
    with pytest.raises(MessagesLostError, match=expected):
        list(silent(monkeypatch, 7).fetch("rows", 0, 5, 10, number=0))
    with pytest.raises(LogUnavailableError, match=r"rows\[0\]: no message at offset 5 \(of 10\)"):
        list(silent(monkeypatch, 10).fetch("rows", 0, 5, 10, number=0))
