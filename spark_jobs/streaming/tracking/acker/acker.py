"""The acker: holds the tracking records of its part of the ring, and names the roots whose time is over.

Its state is a snapshot of what it knew once, and a log of the rounds after that, each with its messages as they came.
What it knows now is kept in memory, and made again from both where it is lost. The log is folded into a new snapshot
when it outgrows the one before, so both grow with what is in flight.

Time goes in ticks, and stands still while the rounds' `pace` says so: while a stage is behind or away nothing is late.
A root whose time is over is told to be sent again, or after so many tries to be given up. A record that is another
acker's, by the newest ring that was heard of, is sent on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import Codec, from_plain, plain
from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.acker.table import Layout, Table
from springline.spark_jobs.streaming.tracking.latency_histogram import Durations
from springline.spark_jobs.streaming.tracking.records import SLICES, Items
from springline.spark_jobs.streaming.tracking.ring import Circle, newest
from springline.spark_jobs.streaming.tracking.wire import Kind, Telling, Told

TICKS = 1_024  # of a time-out
_SWEEP_TICKS = TICKS // 8  # between two looks at whose time is over
_STEP_SECONDS = 2.0  # by which time goes on in one round, at most
_LOG_BYTES = 4 << 20  # that the log may have, whatever the snapshot has
_LOG_ROUNDS = 200
_MARK_TICKS = 8  # between two looks at which roots are the first unfinished
_LOG = pa.schema([pa.field("value", pa.large_binary(), nullable=False)])


@dataclass
class _Known:
    """What an acker knows after the round `order`."""

    table: Table
    epoch: int = 0
    order: tuple[int, int] = (0, 0)
    time: float = 0.0
    clock: float = 0.0
    swept: int = 0  # tick of the last sweep
    marked: int = 0  # tick at which the marks were looked at
    lows: dict[int, int] = field(default_factory=dict)  # by partition, the first offset that may be unfinished
    through: dict[int, int] = field(default_factory=dict)  # by partition, the offset up to which all is registered
    durations: Durations = field(default_factory=Durations)
    totals: Counter[str] = field(default_factory=Counter)
    back: bool = False  # whether roots came, in this round, that the marks may have passed

    @property
    def base(self) -> _Base:
        """All but the table's records."""
        return _Base(
            self.epoch, self.table.circle.ackers, self.order, self.time, self.clock, self.swept, self.marked, self.lows,
            self.through, self.durations.counts, self.durations.since, self.totals,
        )  # fmt: skip

    @staticmethod
    def of(base: _Base, table: Table) -> _Known:
        """The inverse of `base`, with the table."""
        return _Known(
            table, base.epoch, base.order, base.time, base.clock, base.swept, base.marked, dict(base.lows),
            dict(base.through), Durations(dict(base.durations), base.since), Counter(base.totals),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Base:
    """What an acker knew when it wrote its snapshot, without the records: in the scalars of its state."""

    epoch: int
    ackers: tuple[int, ...]
    order: tuple[int, int]
    time: float
    clock: float
    swept: int
    marked: int
    lows: Mapping[int, int]
    through: Mapping[int, int]
    durations: Mapping[int, int]
    since: float
    totals: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _About:
    """What a row of the log says of its round beside the messages: a schema's metadata."""

    order: tuple[int, int]
    clock: float
    still: bool
    epoch: int
    ackers: tuple[int, ...]


_ABOUT: Codec[_About] = Codec(
    _About, 1, "a round in the log of an acker",
    "run the job with the version that wrote it, or reset the job, which then begins anew",
)  # fmt: skip


@dataclass(frozen=True)
class _Came:
    """What a round brought: messages, the clock, whether time stands still, the ring; a row of the log."""

    values: Sequence[bytes]
    clock: float
    still: bool
    epoch: int
    ackers: tuple[int, ...]

    def batch(self, order: tuple[int, int]) -> pa.RecordBatch:
        """As a run of the state."""
        about = _About(order, self.clock, self.still, self.epoch, self.ackers)
        schema = _LOG.with_metadata({"came": _ABOUT.encode(about)})
        return pa.RecordBatch.from_arrays([pa.array(self.values, pa.large_binary())], schema=schema)

    @staticmethod
    def of(batch: pa.RecordBatch) -> tuple[tuple[int, int], _Came]:
        """The inverse of `batch`."""
        about = _ABOUT.decode(batch.schema.metadata[b"came"], "the log of an acker")
        values = [value.as_buffer() for value in batch.column("value")]
        return about.order, _Came(values, about.clock, about.still, about.epoch, about.ackers)


class Acker:
    """The step of ackers; `timeout` in seconds, `tries` attempts in all, records in either `layout`.

    With `outcomes`, others have named the roots: what is complete is told too, and no marks are kept, since an id says
    nothing of where a record lies.
    """

    def __init__(self, timeout: float, tries: int, layout: Layout = "dense", outcomes: bool = False) -> None:
        self._tick = timeout / TICKS
        self._tries = tries
        self._outcomes = outcomes
        self._layout: Layout = layout
        self._kept: dict[int, _Known] = {}  # by unit
        self._circles: dict[tuple[int, ...], Circle] = {}

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        this = (given.round.incarnation, given.round.number)
        values = [bytes(message.value) for message in given.messages]
        still = bool(given.round.versions["pace"]["still"])
        came = _Came(values, given.round.clock, still, *newest(given.round.versions["ring"]))
        # Taken out: an attempt that fails must not leave behind what others go on from.
        known = self._kept.pop(given.unit, None)
        if known is None or list(known.order) != state.scalars.get("order", [0, 0]):
            known = self._made_again(state, given.unit, came)
        before = known.totals.copy()
        tells = self._go_on(known, came, this)
        after = self._state(state, known, came)
        self._kept[given.unit] = known
        counts = {name: total - before[name] for name, total in sorted(known.totals.items()) if total != before[name]}
        return Output(state=after, tells=tells, counts=counts, gauges=self._gauges(known))

    # ---- a round

    def _go_on(self, known: _Known, came: _Came, order: tuple[int, int]) -> list[pa.RecordBatch]:
        """Take what came and let time go on; what is to be told."""
        passed = came.clock - known.clock if known.clock else 0.0
        known.order, known.clock = order, came.clock
        if not came.still:
            known.time += min(passed, _STEP_SECONDS)
        now = int(known.time / self._tick)
        told = [Told.read(value) for value in came.values]
        for each in told:
            self._take(known, each, now)
        forward = self._forward(known, [(came.epoch, came.ackers), *((each.epoch, each.ackers) for each in told)])
        telling = Telling(known.epoch, known.table.circle.ackers)
        tells = [telling.records(forward)] if forward is not None and forward.roots.size else []
        if now - known.swept >= _SWEEP_TICKS:
            known.swept = now
            tells += self._sweep(known, telling, now)
        done = known.table.drain_completed()
        if done.roots.size:
            known.totals["completed"] += done.roots.size
            known.durations.add((now - done.born.astype(np.int64)) * self._tick, known.time)
            if self._outcomes:
                tells.append(telling.named(done.roots, done.attempts, Kind.DONE))
        if not self._outcomes and (known.back or now - known.marked >= _MARK_TICKS or not known.marked):
            known.marked, known.back = now, False
            known.lows = {**known.through, **known.table.lows()}
        return tells

    def _take(self, known: _Known, told: Told, now: int) -> None:
        table, totals, batch = known.table, known.totals, told.batch
        circle = self._circle(told.ackers)
        if told.kind is Kind.REGISTRATIONS:
            values = batch.column("values")
            flat, ends = values.flatten().to_numpy(zero_copy_only=False), values.offsets.to_numpy()
            ends = ends - ends[0]
            columns = [told.column(name).tolist() for name in ("partition", "offset", "messages", "rows")]
            for row, (partition, offset, messages, rows) in enumerate(zip(*columns, strict=True)):
                part = flat[ends[row] : ends[row + 1]]
                table.register_range(partition, offset, messages, rows, part, told.attempt, now, circle)
            totals["registered"] += flat.size
        elif told.kind is Kind.SOURCES:
            for span in told.spans():
                table.register_range(
                    span.partition, span.offset, span.messages, 1, np.uint64(span.value), 1, now, circle
                )  # fmt: skip
        elif told.kind is Kind.RETRIES:
            table.register(told.column("root"), told.attempt, told.column("value"), now)
            totals["retried"] += batch.num_rows
            known.back = True  # `retried` is told now: marks that do not know of them yet would let them pass
        elif told.kind is Kind.ACKS:
            table.ack(told.column("root"), told.attempt, told.column("value"), now)
            totals["acks"] += batch.num_rows
        elif told.kind is Kind.SPANS:
            for span in told.spans():
                table.ack_range(span.partition, span.offset, span.messages, span.value, now, circle=circle)
                totals["acks"] += span.messages
        elif told.kind is Kind.RECORDS:
            table.adopt(told.items())
            totals["adopted"] += batch.num_rows
            known.back = True
        for partition, offset in (told.through or {}).items():
            known.through[partition] = max(known.through.get(partition, 0), offset)

    def _forward(self, known: _Known, heard: Sequence[tuple[int, tuple[int, ...]]]) -> Items | None:
        """The records that are not this acker's by the newest ring that was heard of."""
        epoch, ackers = max([(known.epoch, known.table.circle.ackers), *heard])
        late = any(0 < each < epoch for each, _ in heard[1:])  # sent by somebody who had not heard of it yet
        if epoch == known.epoch and not late:
            return None
        known.epoch = epoch
        found = known.table.release(self._circle(ackers))
        known.totals["forwarded"] += found.roots.size
        return found

    def _sweep(self, known: _Known, telling: Telling, now: int) -> list[pa.RecordBatch]:
        """Name the roots that were registered a time-out ago; of what was never registered, forget the acks."""
        if now < TICKS:
            return []
        expired = known.table.sweep(now - TICKS + 1)
        known.totals["strays"] += expired.unregistered_roots.size
        over = expired.attempts >= self._tries
        known.totals["expired"] += expired.roots.size
        known.totals["again"] += int((~over).sum())
        known.totals["gone"] += int(over.sum())
        tells = []
        if not over.all():
            tells.append(telling.named(expired.roots[~over], expired.attempts[~over] + np.uint8(1), Kind.AGAIN))
        if over.any():
            tells.append(telling.named(expired.roots[over], expired.attempts[over], Kind.GONE))
        return tells

    # ---- the state

    def _made_again(self, state: State, unit: int, came: _Came) -> _Known:
        """What was known after the round of `state`."""
        scalars = state.scalars
        if not scalars:
            return _Known(Table(self._layout, unit, self._circle(came.ackers)), came.epoch)
        base = from_plain(_Base, scalars["base"], f"the state of acker {unit}")
        circle = self._circle(base.ackers)
        snapshot = state.runs["snapshot"][0] if state.runs.get("snapshot") else None
        table = Table(self._layout, unit, circle)
        if snapshot is not None:
            table = Table.of(snapshot, self._layout, unit, circle)
        known = _Known.of(base, table)
        for batch in state.runs.get("log", ()):
            order, logged = _Came.of(batch)
            self._go_on(known, logged, order)
        return known

    def _state(self, state: State, known: _Known, came: _Came) -> State:
        log = (*state.runs.get("log", ()), came.batch(known.order))
        written = sum(batch.nbytes for batch in log)
        held = sum(batch.nbytes for batch in state.runs.get("snapshot", ()))
        order = list(known.order)
        if state.scalars and written <= max(_LOG_BYTES, 2 * held) and len(log) <= _LOG_ROUNDS:
            return State({**state.scalars, "order": order}, {**state.runs, "log": log})
        self._rebase(known)
        return State({"order": order, "base": plain(known.base)}, {"snapshot": (known.table.snapshot(),)})

    def _rebase(self, known: _Known) -> None:
        """Begin to count ticks anew before there are more than a record has room for."""
        now = int(known.time / self._tick)
        if now < SLICES // 2:
            return
        back = now - 2 * TICKS
        found = known.table.items()
        born = np.maximum(found.born.astype(np.int64) - back, 0).astype(np.uint32)
        fresh = Table(self._layout, known.table.acker, known.table.circle)
        fresh.adopt(found._replace(born=born))
        known.table = fresh
        known.time -= back * self._tick
        known.swept, known.marked = known.swept - back, known.marked - back
        known.durations.since -= back * self._tick

    def _gauges(self, known: _Known) -> dict[str, Any]:
        totals = known.totals
        return {
            "in_flight": known.table.in_flight, "bytes": known.table.nbytes, "epoch": known.epoch,
            "ackers": list(known.table.circle.ackers), "lows": _texts(known.lows), "time": known.time,
            "durations": known.durations.as_json(),
            **{name: totals[name] for name in ("completed", "again", "retried", "forwarded", "adopted", "gone")},
        }  # fmt: skip

    def _circle(self, ackers: tuple[int, ...]) -> Circle:
        if ackers not in self._circles:
            self._circles[ackers] = Circle.of(ackers)
        return self._circles[ackers]


def _texts(numbers: dict[int, int]) -> dict[str, int]:
    return {str(key): numbers[key] for key in sorted(numbers)}
