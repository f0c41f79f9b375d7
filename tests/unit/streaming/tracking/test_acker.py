"""The step of ackers: what it emits when, and that it is the same whoever goes on with its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State
from springline.spark_jobs.streaming.tracking.acker import acker as module
from springline.spark_jobs.streaming.tracking.acker.acker import Acker
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges, fold_owners
from springline.spark_jobs.streaming.tracking.ring import AckerRing, RingHistory
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
        self.unit = 0

    def make(self) -> Acker:
        """One without memory."""
        return Acker(TIMEOUT, self.tries)

    def round(
        self, *batches: pa.RecordBatch, paused: bool = False, seconds: float = 1.0, ring: Mapping[str, Any] = RING
    ) -> Output:
        """A round that brings these batches."""
        if self.forgets:
            self.acker = self.make()
        self.number += 1
        self.clock += seconds
        versions = {"ring": ring, "clock": {"paused": paused}}
        messages = [Message(0, arrow_bytes(batch)) for batch in batches]
        output = self.acker(
            self.state, Input("acker", self.unit, Round(1, self.number, self.clock, versions), messages)
        )  # fmt: skip
        self.state = output.state
        return output


def registered(*offsets: int, value: int = 7) -> pa.RecordBatch:
    """Messages of one row each, that emitted one edge each."""
    values = np.full(len(offsets), value, np.uint64)
    ones = np.ones(len(offsets), np.int64)
    return TELLING.registrations(0, list(offsets), ones, ones, values, registered_up_to=max(offsets) + 1)


def acked(*offsets: int, value: int = 7, attempt: int = 1, kind: MessageKind = MessageKind.ACKS) -> pa.RecordBatch:
    """Acks of those."""
    roots = np.array([root_id(0, offset) for offset in offsets], np.uint64)
    return TELLING.acks(roots, np.full(len(offsets), value, np.uint64), attempt, kind=kind)


def folded(*offsets: int, rows: int = 2, value: int = 7, by_row: bool = True) -> pa.RecordBatch:
    """The fold of some messages."""
    fold = Fold.registration(0, RowRanges.of(offsets, [rows] * len(offsets)), value, by_row=by_row)
    return TELLING.folds([fold], MessageKind.FOLDS, registered_up_to={0: max(offsets) + 1})


def acked_fold(offset: int, value: int = 7) -> pa.RecordBatch:
    """Acks of the fold that begins there."""
    return TELLING.fold_acks(*(np.array([number], np.uint64) for number in (root_id(0, offset), value)))


def audited(*offsets: int, age: int) -> pa.RecordBatch:
    """Messages of two rows each, which were registered as a fold before."""
    values = np.full(2 * len(offsets), 7, np.uint64)
    twos = np.full(len(offsets), 2)
    return TELLING.registrations(0, list(offsets), twos, twos, values, age=age)


def audit_requests(output: Output) -> list[Fold]:
    """The folds that a round asks to be audited."""
    messages = [AckMessage.read(arrow_bytes(batch)) for batch in output.feedback]
    return [fold for each in messages if each.kind is MessageKind.AUDIT_REQUESTS for fold in each.folds()]


def named(output: Output) -> list[tuple[str, int, int]]:
    """What a round emitted: the outcome of which offset, in which attempt."""
    named_roots = []
    for batch in output.feedback:
        message = AckMessage.read(arrow_bytes(batch))
        if message.kind is MessageKind.AUDIT_REQUESTS:
            continue
        for root, attempt in zip(message.column("root"), message.column("attempt"), strict=True):
            named_roots.append((str(message.kind), unpack_root_id(int(root)).offset, int(attempt)))
    return named_roots


def test_a_root_is_named_within_one_and_a_quarter_of_its_time() -> None:
    """Not before it is over."""
    ackers = Ackers()
    ackers.round(registered(1, 2), acked(2))
    names_by_round = [named(ackers.round()) for _ in range(10)]
    assert [bool(names) for names in names_by_round].index(True) in (7, 8, 9)
    assert [name for names in names_by_round for name in names] == [("replay-requests", 1, 2)]


def test_while_time_stands_still_nothing_is_late() -> None:
    """However long that lasts; nor is a pause between two rounds, in which the job was away, time that has passed."""
    ackers = Ackers()
    ackers.round(registered(1))
    assert not ackers.round(seconds=1_000.0).feedback
    assert not any(ackers.round(paused=True).feedback for _ in range(50))
    assert any(ackers.round().feedback for _ in range(10))


def test_after_its_last_try_a_root_is_abandoned() -> None:
    """With the number of the attempt."""
    ackers = Ackers(tries=2)
    ackers.round(registered(1))
    first = [name for _ in range(12) for name in named(ackers.round())]
    ackers.round(acked(1, value=9, attempt=2, kind=MessageKind.RETRIES))
    second = [name for _ in range(12) for name in named(ackers.round())]
    assert (first, second) == ([("replay-requests", 1, 2)], [("failed", 1, 2)])


@pytest.mark.parametrize("paused", [False, True])
def test_the_marks_are_below_what_is_retried_as_soon_as_that_is_emitted(paused: bool) -> None:
    """In the same round, however short, and while time stands still: who adds up what came back goes by both."""
    ackers = Ackers()
    ackers.round(registered(1))
    while ackers.round().gauges["replay_requests"] == 0:
        pass
    ackers.round()
    assert ackers.round().gauges["low_watermarks"] == {"0": 2}, "nobody holds it now"
    output = ackers.round(acked(1, value=9, attempt=2, kind=MessageKind.RETRIES), seconds=0.001, paused=paused)
    assert (output.gauges["retried"], output.gauges["low_watermarks"]) == (1, {"0": 1})


def test_a_fold_completes_all_its_roots_at_once() -> None:
    """Whichever comes first; a fold without tuples is complete at once."""
    ackers = Ackers()
    output = ackers.round(acked_fold(1, 3), folded(1, 2, 5), folded(6, value=0))
    assert output.counts["completed"] == 2
    assert (output.gauges["in_flight"], output.gauges["low_watermarks"]) == (6, {"0": 1})
    output = ackers.round(acked_fold(1, 4), seconds=TIMEOUT / 4)
    assert output.counts == {"acks": 1, "completed": 6}
    assert (output.gauges["in_flight"], output.gauges["low_watermarks"]) == (0, {"0": 7})
    assert sum(output.gauges["durations"].values()) == 8


def test_a_fold_takes_few_bytes_however_many_roots_it_has() -> None:
    """Where messages have equally many rows; else some for each message."""
    ackers = Ackers()
    sizes = [
        ackers.round(*batches).gauges["bytes"]
        for batches in ((), (folded(*range(1, 2_001), rows=5_000),), (folded(*range(3_001, 5_001, 2)),))
    ]
    assert np.diff(sizes).tolist() == [38, 22 + 16 * 1_000]


def test_a_fold_that_is_open_after_half_the_time_is_audited() -> None:
    """With its messages and its age; and a root of it that remains times out with all others."""
    ackers = Ackers()
    ackers.round(folded(1, 2, 5), acked_fold(1, 3))
    rounds = [ackers.round() for _ in range(5)]
    ((fold,),) = filter(None, map(audit_requests, rounds))
    offsets, rows = fold.ranges.each_message()
    assert (fold.partition, offsets.tolist(), rows.tolist()) == (0, [1, 2, 5], [2, 2, 2])
    assert module.TICKS / 2 <= fold.tick < 0.7 * module.TICKS
    assert rounds[-1].gauges["audit_requests"] == 6 and rounds[-1].gauges["in_flight"] == 0
    roots = np.array([root_id(0, offset, row) for offset in (1, 2, 5) for row in (0, 1)], np.uint64)
    answers = TELLING.acks(roots[:5], np.full(5, 7, np.uint64), 1)
    output = ackers.round(answers, audited(1, 2, 5, age=fold.tick))
    assert (output.gauges["audited"], output.gauges["in_flight"], output.gauges["low_watermarks"]) == (6, 1, {"0": 5})
    assert output.counts["completed"] == 5
    names_by_round = [named(ackers.round()) for _ in range(4)]
    assert [name for names in names_by_round for name in names] == [("replay-requests", 5, 2)]


def test_a_fold_of_messages_fails_as_one_when_its_time_is_over() -> None:
    """Its roots cannot be distinguished."""
    ackers = Ackers(tries=1)
    ackers.round(folded(1, 2, rows=1, by_row=False))
    rounds = [ackers.round() for _ in range(10)]
    assert not any(map(audit_requests, rounds))
    assert [name for output in rounds for name in named(output)] == [("failed", 1, 1), ("failed", 2, 1)]
    assert [bool(named(output)) for output in rounds].index(True) in (7, 8, 9)
    assert rounds[-1].gauges["failed"] == 2


def test_acks_of_an_unregistered_fold_are_dropped_in_time() -> None:
    """Nothing is reported of them, and they hold no mark."""
    ackers = Ackers()
    ackers.round(acked_fold(1))
    rounds = [ackers.round() for _ in range(10)]
    assert not any(output.feedback for output in rounds)
    assert rounds[-1].gauges["in_flight"] == 0


def test_a_fold_goes_to_the_acker_that_a_new_ring_assigns_it() -> None:
    """Its acks that went to the old one follow, and they close it where they meet."""
    two = RingHistory.of([0], 2).with_acker(1)
    firsts = np.array([root_id(0, offset) for offset in range(1, 40)], np.uint64)
    moved = int(np.flatnonzero(fold_owners(AckerRing.of([0, 1]), firsts) == 1)[0]) + 1
    old, new = Ackers(), Ackers()
    new.unit = 1
    old.round(folded(moved), acked_fold(moved, 1))
    (batch,) = old.round(ring=two.as_json()).feedback
    assert AckMessage.read(arrow_bytes(batch)).kind is MessageKind.FOLD_RECORDS
    (late,) = old.round(acked_fold(moved, 2), ring=two.as_json()).feedback
    assert old.round(ring=two.as_json()).gauges["in_flight"] == 0
    output = new.round(late, batch, acked_fold(moved, 4), ring=two.as_json())
    assert (output.counts["completed"], output.gauges["adopted"], output.gauges["in_flight"]) == (2, 2, 0)


def history(ackers: Ackers) -> list[Any]:
    """What an acker emits in many rounds of all kinds."""
    random = np.random.default_rng(3)
    rounds: list[Any] = []
    for number in range(120):
        offsets = [10 * number + place for place in range(10)]
        lost_offsets = set(random.choice(offsets, 3).tolist())
        round_folds = [folded(10_000 + number), *([acked_fold(10_000 + number)] if number % 5 else [])]
        output = ackers.round(
            registered(*offsets), acked(*[each for each in offsets if each not in lost_offsets]), *round_folds
        )
        for fold in audit_requests(output):
            ackers.round(audited(fold.offset, age=fold.tick))
        names = [*named(output), [fold.first for fold in audit_requests(output)]]
        if retried := [offset for kind, offset, attempt in named(output) if kind == "replay-requests" and attempt == 2]:
            ackers.round(
                acked(*retried, value=5, attempt=2, kind=MessageKind.RETRIES), acked(*retried, value=5, attempt=2)
            )
        rounds.append((names, dict(output.counts), output.gauges["in_flight"], output.gauges["low_watermarks"]))
    return rounds


def test_any_acker_that_goes_on_with_the_state_emits_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the snapshot and the log after it."""
    monkeypatch.setattr(module, "_LOG_ROUNDS", 7)
    assert history(Ackers()) == history(Ackers(forgets=True))


def test_ticks_start_over_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else changes by that."""
    plain = history(Ackers())
    monkeypatch.setattr(module, "_LOG_ROUNDS", 7)
    monkeypatch.setattr(module, "SLICES", 8 * module.TICKS)
    ackers = Ackers()
    rounds = history(ackers)
    assert max(ackers.state.runs["snapshot"][0].column("tick").to_pylist(), default=0) < 8 * module.TICKS
    assert [names for names, *_ in rounds] == [names for names, *_ in plain]


def test_a_foreign_message_is_named() -> None:
    """It is not taken for an ack."""
    with pytest.raises(InvalidUpdateError, match="from another writer"):
        AckMessage.read(b"hello")
