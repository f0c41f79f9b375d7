"""The step of ackers: what it tells when, and that it is the same whoever goes on with its state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, Round, State
from springline.spark_jobs.streaming.tracking.acker import acker as module
from springline.spark_jobs.streaming.tracking.acker.acker import Acker
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.root_id import root_id, unpack_root_id
from springline.spark_jobs.streaming.tracking.wire import AckEncoder, AckMessage, MessageKind

TIMEOUT = 8.0
TELLING = AckEncoder(1, [0])
RING = {"max_ackers": 2, "epochs": {"1": [0]}}


class Ackers:
    """An acker's rounds, a second apart; `forgets`: each is run by one that knows the state alone."""

    def __init__(self, *, tries: int = 3, forgets: bool = False) -> None:
        self.tries, self.forgets = tries, forgets
        self.acker, self.state, self.number, self.clock = self.make(), State(), 0, 100.0

    def make(self) -> Acker:
        """One without memory."""
        return Acker(TIMEOUT, self.tries)

    def round(self, *batches: pa.RecordBatch, paused: bool = False, seconds: float = 1.0) -> Output:
        """A round that brings these batches."""
        if self.forgets:
            self.acker = self.make()
        self.number += 1
        self.clock += seconds
        versions = {"ring": RING, "clock": {"paused": paused}}
        messages = [Message(0, arrow_bytes(batch)) for batch in batches]
        output = self.acker(
            self.state, Input("acker", 0, Round(1, self.number, self.clock, versions), messages)
        )  # fmt: skip
        self.state = output.state
        return output


def registered(*offsets: int, value: int = 7) -> pa.RecordBatch:
    """Messages of one row each, that emitted one edge each."""
    values = np.full(len(offsets), value, np.uint64)
    ones = np.ones(len(offsets), np.int64)
    return TELLING.registrations(0, list(offsets), ones, ones, values, max(offsets) + 1)


def acked(*offsets: int, value: int = 7, attempt: int = 1, kind: MessageKind = MessageKind.ACKS) -> pa.RecordBatch:
    """Acks of those."""
    roots = np.array([root_id(0, offset) for offset in offsets], np.uint64)
    return TELLING.acks(roots, np.full(len(offsets), value, np.uint64), attempt, kind=kind)


def named(output: Output) -> list[tuple[str, int, int]]:
    """What a round told: what is to become of which offset, in which attempt."""
    named_roots = []
    for batch in output.feedback:
        message = AckMessage.read(arrow_bytes(batch))
        for root, attempt in zip(message.column("root"), message.column("attempt"), strict=True):
            named_roots.append((str(message.kind), unpack_root_id(int(root)).offset, int(attempt)))
    return named_roots


def test_what_is_registered_and_acked_is_complete_in_any_order() -> None:
    """An ack that comes first waits for its registration."""
    ackers = Ackers()
    output = ackers.round(acked(2), registered(1, 2, 3), acked(1))
    assert output.counts["completed"] == 2 and output.gauges["in_flight"] == 1
    assert ackers.round(acked(3)).gauges["in_flight"] == 0


def test_a_root_is_named_within_one_and_a_quarter_of_its_time() -> None:
    """Not before it is over."""
    ackers = Ackers()
    ackers.round(registered(1, 2), acked(2))
    names_by_round = [named(ackers.round()) for _ in range(10)]
    assert [bool(names) for names in names_by_round].index(True) in (7, 8, 9)
    assert [name for names in names_by_round for name in names] == [("replay-requests", 1, 2)]


def test_while_time_stands_still_nothing_is_late() -> None:
    """However long that lasts."""
    ackers = Ackers()
    ackers.round(registered(1))
    assert not any(ackers.round(paused=True).feedback for _ in range(50))
    assert any(ackers.round().feedback for _ in range(10))


def test_a_pause_between_two_rounds_is_no_time_that_has_passed() -> None:
    """The job was away."""
    ackers = Ackers()
    ackers.round(registered(1))
    assert not ackers.round(seconds=1_000.0).feedback


def test_after_its_last_try_a_root_is_given_up() -> None:
    """With the number of the attempt."""
    ackers = Ackers(tries=2)
    ackers.round(registered(1))
    first = [name for _ in range(12) for name in named(ackers.round())]
    ackers.round(acked(1, value=9, attempt=2, kind=MessageKind.RETRIES))
    second = [name for _ in range(12) for name in named(ackers.round())]
    assert (first, second) == ([("replay-requests", 1, 2)], [("failed", 1, 2)])


@pytest.mark.parametrize("paused", [False, True])
def test_the_marks_are_below_what_is_sent_again_as_soon_as_that_is_told(paused: bool) -> None:
    """In the same round, however short, and while time stands still: who adds up what came back goes by both."""
    ackers = Ackers()
    ackers.round(registered(1))
    while ackers.round().gauges["replay_requests"] == 0:
        pass
    ackers.round()
    assert ackers.round().gauges["low_watermarks"] == {"0": 2}, "nobody holds it now"
    output = ackers.round(acked(1, value=9, attempt=2, kind=MessageKind.RETRIES), seconds=0.001, paused=paused)
    assert (output.gauges["retried"], output.gauges["low_watermarks"]) == (1, {"0": 1})


def test_late_acks_of_an_earlier_attempt_complete_nothing() -> None:
    """Those of the attempt that runs do."""
    ackers = Ackers()
    ackers.round(registered(1))
    for _ in range(12):
        ackers.round()
    ackers.round(acked(1, value=9, attempt=2, kind=MessageKind.RETRIES))
    assert ackers.round(acked(1, value=7), acked(1, value=9)).gauges["in_flight"] == 1
    assert ackers.round(acked(1, value=9, attempt=2)).counts == {"acks": 1, "completed": 1}


def history(ackers: Ackers) -> list[object]:
    """What an acker tells in many rounds of all kinds."""
    random = np.random.default_rng(3)
    rounds: list[object] = []
    for number in range(120):
        offsets = [10 * number + place for place in range(10)]
        lost_offsets = set(random.choice(offsets, 3).tolist())
        output = ackers.round(registered(*offsets), acked(*[each for each in offsets if each not in lost_offsets]))
        names = named(output)
        if retried := [offset for kind, offset, attempt in names if kind == "replay-requests" and attempt == 2]:
            ackers.round(
                acked(*retried, value=5, attempt=2, kind=MessageKind.RETRIES), acked(*retried, value=5, attempt=2)
            )
        rounds.append((names, dict(output.counts), output.gauges["in_flight"], output.gauges["low_watermarks"]))
    return rounds


def test_whoever_goes_on_with_the_state_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the snapshot and the log after it."""
    monkeypatch.setattr(module, "_LOG_ROUNDS", 7)
    assert history(Ackers()) == history(Ackers(forgets=True))


def test_ticks_begin_anew_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else changes by that."""
    plain = history(Ackers())
    monkeypatch.setattr(module, "_LOG_ROUNDS", 7)
    monkeypatch.setattr(module, "SLICES", 8 * module.TICKS)
    ackers = Ackers()
    rounds = history(ackers)
    assert max(ackers.state.runs["snapshot"][0].column("tick").to_pylist(), default=0) < 8 * module.TICKS
    assert [names for names, *_ in rounds] == [names for names, *_ in plain]  # type: ignore[misc]


def test_a_message_that_nobody_here_wrote_is_named() -> None:
    """It is not taken for an ack."""
    with pytest.raises(InvalidUpdateError, match="from another writer"):
        AckMessage.read(b"hello")
