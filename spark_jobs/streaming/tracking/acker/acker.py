"""The acker: holds the tracking records of its part of the ring, and reports the roots that timed out.

The roots of a round of a spring are one record, a fold, until it does not close in half the timeout: then it is
reported to be audited, and its roots are registered individually, as old as they are.

Its state is a snapshot of its memory, and a log of the rounds after that, each with its messages unchanged. The current
memory is kept by the process, and restored from both if it is lost. The log is folded into a new snapshot when it
outgrows the previous one, so both are proportional to what is in flight.

Time is counted in ticks, and is paused while the rounds' `pace` says so: while a stage lags or is down nothing times
out. A root that timed out is reported to be sent again, or, after all attempts, as failed. A record that belongs to
another acker, by the newest ring known, is forwarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import Codec, from_json_value, to_json_value
from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.acker.fold_table import FoldTable
from springline.spark_jobs.streaming.tracking.acker.table import AckTable, Layout
from springline.spark_jobs.streaming.tracking.folds import concat_roots
from springline.spark_jobs.streaming.tracking.latency_histogram import LatencyHistogram
from springline.spark_jobs.streaming.tracking.records import SLICES
from springline.spark_jobs.streaming.tracking.ring import AckerRing, newest_epoch
from springline.spark_jobs.streaming.tracking.wire import AckEncoder, AckMessage, MessageKind

TICKS = 1_024  # per timeout
AUDIT_TICKS = TICKS // 2  # after which a fold that is not closed is audited: its roots time out with all others
_SWEEP_TICKS = TICKS // 8  # between two sweeps for roots that timed out
_STEP_SECONDS = 2.0  # most time that passes in one round
_LOG_BYTES = 4 << 20  # allowed for the log, however small the snapshot
_LOG_ROUNDS = 200
_MARK_TICKS = 8  # between two updates of the low watermarks
_LOG = pa.schema([pa.field("value", pa.large_binary(), nullable=False)])
_TOTALS = (
    "completed", "audit_requests", "audited", "replay_requests", "retried", "forwarded", "adopted", "failed",
)  # fmt: skip


@dataclass
class _AckerMemory:
    """State of an acker in memory, after the round `round_id`."""

    table: AckTable
    folds: FoldTable = field(default_factory=FoldTable)
    epoch: int = 0
    round_id: tuple[int, int] = (0, 0)
    time: float = 0.0
    clock: float = 0.0
    swept_tick: int = 0  # tick of the last sweep
    watermarks_tick: int = 0  # tick of the last update of the low watermarks
    low_watermarks: dict[int, int] = field(
        default_factory=dict
    )  # by partition, the first offset that may be unfinished
    registered_up_to: dict[int, int] = field(
        default_factory=dict
    )  # by partition, the offset up to which all is registered
    durations: LatencyHistogram = field(default_factory=LatencyHistogram)
    totals: Counter[str] = field(default_factory=Counter)
    must_update_watermarks: bool = False  # whether this round brought roots that the watermarks may have passed

    @property
    def in_flight(self) -> int:
        """Number of roots that are not completed."""
        return self.table.in_flight + self.folds.in_flight

    @property
    def base(self) -> _SnapshotHeader:
        """The memory without the records."""
        return _SnapshotHeader(
            self.epoch, self.table.ring.ackers, self.round_id, self.time, self.clock, self.swept_tick,
            self.watermarks_tick, self.low_watermarks,
            self.registered_up_to, self.durations.counts, self.durations.since, self.totals,
        )  # fmt: skip

    @staticmethod
    def of(base: _SnapshotHeader, table: AckTable, folds: FoldTable) -> _AckerMemory:
        """The inverse of `base`, with the records."""
        return _AckerMemory(
            table, folds, base.epoch, base.round_id, base.time, base.clock, base.swept_tick, base.watermarks_tick,
            dict(base.low_watermarks),
            dict(base.registered_up_to), LatencyHistogram(dict(base.durations), base.since), Counter(base.totals),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _SnapshotHeader:
    """The memory without records when the snapshot was written: stored in the scalars of the state."""

    epoch: int
    ackers: tuple[int, ...]
    round_id: tuple[int, int]
    time: float
    clock: float
    swept_tick: int
    watermarks_tick: int
    low_watermarks: Mapping[int, int]
    registered_up_to: Mapping[int, int]
    durations: Mapping[int, int]
    since: float
    totals: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _LogEntryHeader:
    """Header of a row of the log, which has the messages: stored as metadata of its schema."""

    round_id: tuple[int, int]
    clock: float
    clock_paused: bool
    epoch: int
    ackers: tuple[int, ...]


_LOG_ENTRY_HEADER: Codec[_LogEntryHeader] = Codec(
    _LogEntryHeader, 1, "a round in the log of an acker",
    "run the job with the version that wrote it, or reset the job",
)  # fmt: skip


@dataclass(frozen=True)
class _LogEntry:
    """Input of a round: messages, the clock, whether it is paused, and the ring; a row of the log."""

    values: Sequence[bytes]
    clock: float
    clock_paused: bool
    epoch: int
    ackers: tuple[int, ...]

    def to_batch(self, round_id: tuple[int, int]) -> pa.RecordBatch:
        """Encode it as a run of the state."""
        header = _LogEntryHeader(round_id, self.clock, self.clock_paused, self.epoch, self.ackers)
        schema = _LOG.with_metadata({"log_entry": _LOG_ENTRY_HEADER.encode(header)})
        return pa.RecordBatch.from_arrays([pa.array(self.values, pa.large_binary())], schema=schema)

    @staticmethod
    def of(batch: pa.RecordBatch) -> tuple[tuple[int, int], _LogEntry]:
        """The inverse of `to_batch`."""
        header = _LOG_ENTRY_HEADER.decode(batch.schema.metadata[b"log_entry"], "the log of an acker")
        values = [value.as_buffer() for value in batch.column("value")]
        return header.round_id, _LogEntry(values, header.clock, header.clock_paused, header.epoch, header.ackers)


class Acker:
    """The step of ackers: `timeout` in seconds, `max_attempts` attempts at most, records in either `layout`.

    With `outcomes`, clients have named the roots: completed roots are reported too, and no low watermarks are kept,
    since an id does not determine the position of a record.
    """

    def __init__(self, timeout: float, max_attempts: int, layout: Layout = "dense", outcomes: bool = False) -> None:
        self._tick_seconds = timeout / TICKS
        self._max_attempts = max_attempts
        self._outcomes = outcomes
        self._layout: Layout = layout
        self._memories: dict[int, _AckerMemory] = {}  # by unit
        self._rings: dict[tuple[int, ...], AckerRing] = {}

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        round_id = (step_input.round.incarnation, step_input.round.number)
        values = [bytes(message.value) for message in step_input.messages]
        clock_paused = bool(step_input.round.broadcast_values["clock"]["paused"])
        entry = _LogEntry(
            values, step_input.round.clock, clock_paused, *newest_epoch(step_input.round.broadcast_values["ring"])
        )
        # Taken out: a failed attempt must not leave partial changes for the next one.
        memory = self._memories.pop(step_input.unit, None)
        if memory is None or list(memory.round_id) != state.scalars.get("order", [0, 0]):
            memory = self._restore(state, step_input.unit, entry)
        before = memory.totals.copy()
        feedback = self._apply_entry(memory, entry, round_id)
        after = self._next_state(state, memory, entry)
        self._memories[step_input.unit] = memory
        counts = {name: total - before[name] for name, total in sorted(memory.totals.items()) if total != before[name]}
        # Time-outs need rounds, and so do low watermarks that are not known yet.
        is_done = not memory.in_flight and (self._outcomes or memory.low_watermarks == memory.registered_up_to)
        timer = None if is_done else memory.clock
        return Output(state=after, feedback=feedback, counts=counts, gauges=self._gauges(memory), timer=timer)

    # ---- a round

    def _apply_entry(self, memory: _AckerMemory, entry: _LogEntry, round_id: tuple[int, int]) -> list[pa.RecordBatch]:
        """Apply the input of a round and advance the time; return the feedback to send."""
        passed = entry.clock - memory.clock if memory.clock else 0.0
        memory.round_id, memory.clock = round_id, entry.clock
        if not entry.clock_paused:
            memory.time += min(passed, _STEP_SECONDS)
        now = int(memory.time / self._tick_seconds)
        messages = [AckMessage.read(value) for value in entry.values]
        for each in messages:
            self._apply_message(memory, each, now)
        feedback = self._forward(
            memory, [(entry.epoch, entry.ackers), *((each.epoch, each.ackers) for each in messages)]
        )
        encoder = AckEncoder(memory.epoch, memory.table.ring.ackers)
        if now - memory.swept_tick >= _SWEEP_TICKS:
            memory.swept_tick = now
            feedback += self._sweep(memory, encoder, now)
        feedback += self._count_completed(memory, encoder, now)
        if not self._outcomes and (
            memory.must_update_watermarks or now - memory.watermarks_tick >= _MARK_TICKS or not memory.watermarks_tick
        ):
            memory.watermarks_tick, memory.must_update_watermarks = now, False
            memory.low_watermarks = _least(
                memory.registered_up_to, memory.table.low_watermarks(), memory.folds.low_watermarks()
            )
        return feedback

    def _apply_message(self, memory: _AckerMemory, message: AckMessage, now: int) -> None:
        table, totals, batch = memory.table, memory.totals, message.batch
        if message.kind is MessageKind.FOLDS:
            for fold in message.folds():
                memory.folds.register(fold, now)
                totals["registered"] += fold.ranges.root_count
        elif message.kind is MessageKind.FOLD_ACKS:
            for first, value in zip(message.column("fold").tolist(), message.column("value").tolist(), strict=True):
                memory.folds.ack(first, value, now)
            totals["acks"] += batch.num_rows
        elif message.kind is MessageKind.REGISTRATIONS:
            self._register_ranges(memory, message, now)
        elif message.kind is MessageKind.RETRIES:
            table.register(message.column("root"), message.attempt, message.column("value"), now)
            totals["retried"] += batch.num_rows
            memory.must_update_watermarks = (
                True  # `retried` is reported now: watermarks that do not include them would pass them
            )
        elif message.kind is MessageKind.ACKS:
            table.ack(message.column("root"), message.attempt, message.column("value"), now)
            totals["acks"] += batch.num_rows
        elif message.kind is MessageKind.RECORDS:
            table.adopt(message.records())
            totals["adopted"] += batch.num_rows
            memory.must_update_watermarks = True
        elif message.kind is MessageKind.FOLD_RECORDS:
            memory.folds.adopt(message.folds())
            totals["adopted"] += batch.num_rows
            memory.must_update_watermarks = True
        for partition, offset in (message.registered_up_to or {}).items():
            memory.registered_up_to[partition] = max(memory.registered_up_to.get(partition, 0), offset)

    def _register_ranges(self, memory: _AckerMemory, message: AckMessage, now: int) -> None:
        """Register roots individually: for the first time, or those of a fold that is audited."""
        values = message.batch.column("values")
        flat, ends = values.flatten().to_numpy(zero_copy_only=False), values.offsets.to_numpy()
        ends = ends - ends[0]
        columns = [message.column(name).tolist() for name in ("partition", "offset", "messages", "rows")]
        tick = now if message.age is None else max(now - message.age, 0)
        for row, (partition, offset, messages, rows) in enumerate(zip(*columns, strict=True)):
            part = flat[ends[row] : ends[row + 1]]
            memory.table.register_range(
                partition, offset, messages, rows, part, message.attempt, tick, self._ring_of(message.ackers)
            )
        if message.age is None:
            memory.totals["registered"] += flat.size
        else:
            memory.totals["audited"] += flat.size
            memory.must_update_watermarks = True

    def _forward(
        self, memory: _AckerMemory, announced_rings: Sequence[tuple[int, tuple[int, ...]]]
    ) -> list[pa.RecordBatch]:
        """Remove the records that are not this acker's by the newest ring known; return the feedback with them."""
        epoch, ackers = max([(memory.epoch, memory.table.ring.ackers), *announced_rings])
        late = any(0 < each < epoch for each, _ in announced_rings[1:])  # a sender did not know the newest ring
        if epoch == memory.epoch and not late:
            return []
        memory.epoch, ring = epoch, self._ring_of(ackers)
        encoder = AckEncoder(epoch, ring.ackers)
        records, folds = memory.table.release(ring), memory.folds.release(ring, memory.table.acker)
        memory.totals["forwarded"] += records.roots.size + len(folds)
        feedback = [encoder.records(records)] if records.roots.size else []
        return [*feedback, encoder.folds(folds, MessageKind.FOLD_RECORDS)] if folds else feedback

    def _sweep(self, memory: _AckerMemory, encoder: AckEncoder, now: int) -> list[pa.RecordBatch]:
        """Report the roots that were registered a timeout ago, and the folds that are to be audited.

        Acks of roots and folds that were never registered are dropped.
        """
        before, audits_before = (max(now - ticks + 1, 0) for ticks in (TICKS, AUDIT_TICKS))
        expired, folds = memory.table.sweep(before), memory.folds.sweep(before, audits_before)
        memory.totals["strays"] += expired.unregistered_roots.size + folds.unregistered
        memory.totals["audit_requests"] += sum(fold.ranges.root_count for fold in folds.audits)
        roots = np.concatenate([expired.roots, concat_roots(folds.failed)])
        attempts = np.ones(roots.size, np.uint8)
        attempts[: expired.attempts.size] = expired.attempts
        is_exhausted = attempts >= self._max_attempts
        memory.totals["expired"] += roots.size
        memory.totals["replay_requests"] += int((~is_exhausted).sum())
        memory.totals["failed"] += int(is_exhausted.sum())
        feedback = []
        if folds.audits:
            aged_folds = [fold._replace(tick=now - fold.tick) for fold in folds.audits]
            feedback.append(encoder.folds(aged_folds, MessageKind.AUDIT_REQUESTS))
        if not is_exhausted.all():
            feedback.append(
                encoder.root_attempts(
                    roots[~is_exhausted], attempts[~is_exhausted] + np.uint8(1), MessageKind.REPLAY_REQUESTS
                )
            )
        if is_exhausted.any():
            feedback.append(encoder.root_attempts(roots[is_exhausted], attempts[is_exhausted], MessageKind.FAILED))
        return feedback

    def _count_completed(self, memory: _AckerMemory, encoder: AckEncoder, now: int) -> list[pa.RecordBatch]:
        """Count what was completed in this round, and how long it took; return the feedback to clients."""
        completed, folds = memory.table.drain_completed(), memory.folds.drain_completed()
        if folds:
            counts, ticks = (np.array(column, np.int64) for column in zip(*folds, strict=True))
            memory.totals["completed"] += int(counts.sum())
            memory.durations.add((now - ticks) * self._tick_seconds, memory.time, counts)
        if not completed.roots.size:
            return []
        memory.totals["completed"] += completed.roots.size
        memory.durations.add((now - completed.ticks.astype(np.int64)) * self._tick_seconds, memory.time)
        if not self._outcomes:
            return []
        return [encoder.root_attempts(completed.roots, completed.attempts, MessageKind.COMPLETED)]

    # ---- the state

    def _restore(self, state: State, unit: int, entry: _LogEntry) -> _AckerMemory:
        """Restore the memory after the round of `state`."""
        scalars = state.scalars
        if not scalars:
            return _AckerMemory(AckTable(self._layout, unit, self._ring_of(entry.ackers)), epoch=entry.epoch)
        base = from_json_value(_SnapshotHeader, scalars["base"], f"the state of acker {unit}")
        ring = self._ring_of(base.ackers)
        snapshot = state.runs["snapshot"][0] if state.runs.get("snapshot") else None
        table, folds = AckTable(self._layout, unit, ring), FoldTable()
        if snapshot is not None:
            table = AckTable.of(snapshot, self._layout, unit, ring)
            folds = FoldTable.of(state.runs["folds"][0])
        memory = _AckerMemory.of(base, table, folds)
        for batch in state.runs.get("log", ()):
            round_id, logged = _LogEntry.of(batch)
            self._apply_entry(memory, logged, round_id)
        return memory

    def _next_state(self, state: State, memory: _AckerMemory, entry: _LogEntry) -> State:
        log = (*state.runs.get("log", ()), entry.to_batch(memory.round_id))
        log_bytes = sum(batch.nbytes for batch in log)
        snapshot_bytes = sum(batch.nbytes for name in ("snapshot", "folds") for batch in state.runs.get(name, ()))
        round_id = list(memory.round_id)
        if state.scalars and log_bytes <= max(_LOG_BYTES, 2 * snapshot_bytes) and len(log) <= _LOG_ROUNDS:
            return State({**state.scalars, "order": round_id}, {**state.runs, "log": log})
        self._rebase(memory)
        runs = {"snapshot": (memory.table.snapshot(),), "folds": (memory.folds.snapshot(),)}
        return State({"order": round_id, "base": to_json_value(memory.base)}, runs)

    def _rebase(self, memory: _AckerMemory) -> None:
        """Restart the count of ticks before it exceeds the capacity of a record."""
        now = int(memory.time / self._tick_seconds)
        if now < SLICES // 2:
            return
        shift = now - 2 * TICKS
        records = memory.table.records()
        ticks = np.maximum(records.ticks.astype(np.int64) - shift, 0).astype(np.uint32)
        fresh = AckTable(self._layout, memory.table.acker, memory.table.ring)
        fresh.adopt(records._replace(ticks=ticks))
        memory.table, memory.folds = fresh, memory.folds.rebased(shift)
        memory.time -= shift * self._tick_seconds
        memory.swept_tick, memory.watermarks_tick = memory.swept_tick - shift, memory.watermarks_tick - shift
        memory.durations.since -= shift * self._tick_seconds

    def _gauges(self, memory: _AckerMemory) -> dict[str, Any]:
        totals = memory.totals
        return {
            "in_flight": memory.in_flight,
            "bytes": memory.table.nbytes + memory.folds.nbytes, "epoch": memory.epoch,
            "ackers": list(memory.table.ring.ackers), "low_watermarks": _with_text_keys(memory.low_watermarks),
            "time": memory.time,
            "durations": memory.durations.as_json(),
            **{name: totals[name] for name in _TOTALS},
        }  # fmt: skip

    def _ring_of(self, ackers: tuple[int, ...]) -> AckerRing:
        if ackers not in self._rings:
            self._rings[ackers] = AckerRing.of(ackers)
        return self._rings[ackers]


def _least(registered_up_to: Mapping[int, int], *first_unfinished: Mapping[int, int]) -> dict[int, int]:
    """Return the low watermarks: by partition, the first offset that is unfinished, or not registered."""
    least = {
        partition: min(offsets[partition] for offsets in first_unfinished if partition in offsets)
        for partition in set().union(*first_unfinished)
    }
    return {**registered_up_to, **least}


def _with_text_keys(numbers: dict[int, int]) -> dict[str, int]:
    return {str(key): numbers[key] for key in sorted(numbers)}
