"""The client of a tracker: what it sends, what it refuses, what it hears."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.tracker import client as module
from springline.spark_jobs.streaming.tracker.client import Tracker
from springline.spark_jobs.streaming.tracker.wire import TrackerRequests
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT
from springline.testing.memory_log import MemoryLog


class Log(MemoryLog):
    """Topics of a tracker; it may be away."""

    def __init__(self) -> None:
        super().__init__({"t.requests": 2, "t.results": 2})
        self.away = False

    @contextmanager
    def record_sender(self) -> Iterator[Any]:
        yield self
        if self.away:
            raise LogUnavailableError("away")

    def sent_rows(self) -> list[tuple[int, int, bool, int]]:
        """All rows."""
        messages = [message for unit in self.topics["t.requests"] for message in unit]
        columns = (TrackerRequests.read(message.value) for message in messages)
        return sorted(row for each in columns for row in zip(*(column.tolist() for column in each), strict=True))

    def add_outcomes(self, unit: int, *roots: int) -> None:
        """A message of outcomes."""
        lines = (json.dumps({"root": root, "attempt": 1, "outcome": "finished"}) + "\n" for root in roots)
        self.put("t.results", unit, "".join(lines).encode())


def open_tracker(log: Log) -> Tracker:
    """A client on it."""
    return Tracker("", "t", log=log)


def test_edges_are_random_and_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zero is drawn again."""
    tracker = open_tracker(Log())
    assert len({tracker.edge() for _ in range(1_000)}) == 1_000
    numbers = iter([0, 0, 9])
    monkeypatch.setattr(module.secrets, "randbits", lambda bits: next(numbers))
    assert tracker.edge() == 9


def test_acks_are_xored_by_root_and_attempt_and_sent_when_flushed() -> None:
    """Acks of one root take one row."""
    log = Log()
    with open_tracker(log) as tracker:
        tracker.begin(5, [1, 2])
        tracker.ack(5, 1, [4, 8])
        tracker.ack(5, 2)
        tracker.ack(5, 16, attempt=2)
        assert log.sent_rows() == []
        tracker.flush()
        tracker.flush()
        assert log.sent_rows() == [(5, 1, False, 15), (5, 1, True, 3), (5, 2, False, 16)]
        tracker.begin(6, [])
    assert log.sent_rows()[-1] == (6, 1, True, 0)  # the end of the context flushes


def test_an_error_in_the_context_does_not_lose_what_was_acked() -> None:
    """It was processed."""
    log = Log()
    with pytest.raises(ZeroDivisionError), open_tracker(log) as tracker:
        tracker.ack(5, 1)
        raise ZeroDivisionError
    assert log.sent_rows() == [(5, 1, False, 1)]


def test_so_many_rows_are_sent_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the units in turn."""
    monkeypatch.setattr(module, "BATCH", 3)
    log = Log()
    tracker = open_tracker(log)
    for root in range(8):
        tracker.begin(root, [1])
    assert len(log.sent_rows()) == 6
    assert [len(unit) for unit in log.topics["t.requests"]] == [1, 1]


def test_what_may_have_arrived_is_not_sent_again() -> None:
    """An ack that is applied twice would undo itself."""
    log = Log()
    tracker = open_tracker(log)
    tracker.ack(5, 1)
    log.away = True
    with pytest.raises(LogUnavailableError):
        tracker.flush()
    log.away = False
    tracker.flush()
    assert log.sent_rows() == [(5, 1, False, 1)]


def test_what_cannot_be_of_a_tree_is_refused() -> None:
    """Ids that no root has, edges of 0 or twice, attempts that have no room, a root that begins twice."""
    log = Log()
    with open_tracker(log) as tracker:
        tracker.begin(1, [7])
        for root in (-1, NO_ROOT, 1 << 64):
            for call in (lambda root=root: tracker.begin(root, [1]), lambda root=root: tracker.ack(root, 1)):
                with pytest.raises(InvalidRootError, match="is not the id of a root"):
                    call()
        for call, message in [
            (lambda: tracker.begin(1, [8]), "is already registered; register it as attempt 2"),
            (lambda: tracker.begin(2, [0]), "edge 0"),
            (lambda: tracker.begin(2, [1 << 64]), "edge 18446744073709551616"),
            (lambda: tracker.begin(2, [3, 3]), "duplicate edge"),
            (lambda: tracker.ack(2, 3, [3]), "duplicate edge"),
            (lambda: tracker.ack(2, 3, attempt=0), "attempts count from 1 to 63"),
            (lambda: tracker.begin(2, [3], attempt=64), "attempts count from 1 to 63"),
        ]:
            with pytest.raises(InvalidUpdateError, match=message):
                call()
    assert log.sent_rows() == [(1, 1, True, 7)]


def test_outcomes_are_received_from_where_the_client_began_each_once() -> None:
    """Whoever leaves early goes on where it left, in the middle of a message too."""
    log = Log()
    log.add_outcomes(0, 1)
    tracker = open_tracker(log)
    log.add_outcomes(0, 2, 3)
    log.add_outcomes(1, 4)
    assert next(tracker.outcomes(0.0)) == (2, 1, "finished")
    log.add_outcomes(0, 5)
    assert sorted(root for root, _, _ in tracker.outcomes(0.0)) == [3, 4, 5]
    assert not list(tracker.outcomes(0.0))


def test_a_client_that_waits_for_outcomes_has_sent_its_acks() -> None:
    """Else it might wait for itself."""
    log = Log()
    tracker = open_tracker(log)
    tracker.begin(1, [2])
    assert not list(tracker.outcomes(0.0)) and len(log.sent_rows()) == 1


def test_a_job_that_never_ran_is_named() -> None:
    """The topics are made when it starts."""

    class Empty(Log):
        def offset_bounds(self, topic: str) -> Any:
            raise UnknownTopicError(f"{topic} does not exist")

    expected = r"t\.requests does not exist; it is created when the job t first starts"
    with pytest.raises(UnknownTopicError, match=expected):
        open_tracker(Empty())
