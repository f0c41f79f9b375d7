"""The step of a task: stores tuples of its units, and answers probes with the pairs they form with stored tuples.

It processes a router round as a whole, once every router unit has ended it: first the commands of the round's epoch,
then it stores the round's tuples, then it probes. A stored tuple matches only probes with a greater seq. Probes beyond
the limit of a stage's round are queued, and nothing is stored, copied or cut over before they are answered. With a
limited retention, the round's clock determines which tuples match its probes.

Each tuple is stored in one unit, and probes are routed to all units that may hold partners. So a probe goes once to a
task with such units, and is compared with all tuples of the task: which unit stores a tuple matters only for loads and
for migrations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidBatchError, InvalidCommandsError
from springline.spark_jobs.streaming.join.kernels import sort_order
from springline.spark_jobs.streaming.join.task.copy_retention import CopyRetention
from springline.spark_jobs.streaming.join.task.inbox import WAITING, WHERE, RoundInbox
from springline.spark_jobs.streaming.join.task.migration import MigrationCopy, encode_copy, import_copy
from springline.spark_jobs.streaming.join.task.migration_select import MigrationCut
from springline.spark_jobs.streaming.join.task.probe import ProbeCursor, ProbeResults
from springline.spark_jobs.streaming.join.task.retention import Retention
from springline.spark_jobs.streaming.join.task.segments import bytes_of, numbers_of
from springline.spark_jobs.streaming.join.task.store import Shape, TupleStore
from springline.spark_jobs.streaming.join.wire import (
    MAX_UNITS,
    UNIT,
    Cutover,
    EpochCommands,
    JoinSide,
    StateMigration,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, TopicReader

_STORED = {JoinSide.LEFT: "left", JoinSide.RIGHT: "right"}
_DROPPED = {JoinSide.LEFT: "dropped-left", JoinSide.RIGHT: "dropped-right"}
_PROBES = {JoinSide.LEFT: "probes-left", JoinSide.RIGHT: "probes-right"}

_NEAR = 64  # offsets between two copies that are read at once

Stores = dict[JoinSide, TupleStore]


class JoinTask:
    """The step of the `tasks` tasks of the join `query`, with up to `units` units; unit u belongs to task u % tasks.

    `condition` is a `Condition` as JSON, `copies` the topic of copies of migrations, `most_pairs` the maximum number of
    pairs that a round of a task emits, `shape` the sizes of the stores. Tuples are kept for `ttl` seconds (see
    `Retention`), or without limit.
    """

    def __init__(
        self,
        query: str,
        condition: Mapping[str, Any],
        copies: str,
        units: int,
        tasks: int,
        most_pairs: int = 1_000_000,
        shape: Shape | None = None,
        ttl: float | None = None,
    ) -> None:
        self._query = query
        self._condition = Condition.from_json(condition)
        self._copies = copies
        self._units = units
        self._tasks = tasks
        self._max_pairs = most_pairs
        self._shape = shape or Shape()
        self._retention_seconds = ttl
        self._cached_stores: dict[int, Stores] = {}  # those of each task's last state, with their indexes

    def stores_of(self, task: int) -> Stores:
        """Return the stores of a task after its last round, by side; empty if there was none in this process."""
        return self._cached_stores.get(task, {})

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        task = step_input.unit
        # Removed from the cache, since the stores are changed in place, and a failed round leaves the state as it was.
        stores = _read_stores(state, self._cached_stores.pop(task, None), self._condition, self._shape)
        retention = None if self._retention_seconds is None else _read_retention(state, self._retention_seconds)
        topic = CopyTopic(self._copies, self._tasks)
        units = range(task, self._units, self._tasks)
        task_round = _TaskRound(state, step_input, self._condition, units, topic, stores, retention)
        probe_results = ProbeResults(self._condition, self._query, self._max_pairs)
        while True:
            if task_round.cursor is None:
                if probe_results.is_full or not task_round.begin_round():
                    break
            elif not task_round.probe(probe_results):
                break
        task_round.counts["pairs"] = probe_results.pairs
        output = Output(
            task_round.state(), results=probe_results.results, feedback=task_round.copy_parts,
            counts=dict(sorted(task_round.counts.items())),
            gauges=task_round.gauges(), feedback_needed_from=task_round.copy_retention.deletable_before,
            timer=step_input.round.clock if task_round.has_more else None,
        )  # fmt: skip
        self._cached_stores[task] = stores
        return output


@dataclass(frozen=True, slots=True)
class CopyTopic:
    """The topic of copies: a giver's copies are in the partition of its task."""

    name: str
    tasks: int

    def read(self, read_topic: TopicReader, cutovers: Iterable[Cutover]) -> Iterator[tuple[Cutover, list[Message]]]:
        """Yield cutovers with the messages among which their copies are, by partition and offset.

        Copies that are near each other are read at once: to begin elsewhere in a partition takes a fetch of its own.
        """
        near: list[Cutover] = []
        for cutover in sorted(cutovers, key=lambda each: (self._partition(each), each.start, each.end)):
            if near and not self._is_near(near, cutover):
                yield from self._read_near(read_topic, near)
                near = []
            near.append(cutover)
        if near:
            yield from self._read_near(read_topic, near)

    def _partition(self, cutover: Cutover) -> int:
        return cutover.migration.giver % self.tasks

    def _is_near(self, near: Sequence[Cutover], cutover: Cutover) -> bool:
        end = max(each.end for each in near)
        return self._partition(near[0]) == self._partition(cutover) and cutover.start - end <= _NEAR

    def _read_near(self, read_topic: TopicReader, near: Sequence[Cutover]) -> Iterator[tuple[Cutover, list[Message]]]:
        start, end = min(each.start for each in near), max(each.end for each in near)
        messages = list(read_topic(self.name, self._partition(near[0]), start, end))
        for cutover in near:
            yield cutover, [message for message in messages if cutover.start <= message.offset < cutover.end]


class _TaskRound:
    """One round of the stage in a task with the units `units`.

    `cursor` is where the probes of router round `number` are to be resumed.
    """

    def __init__(
        self,
        state: State,
        step_input: Input,
        condition: Condition,
        units: Sequence[int],
        copies: CopyTopic,
        stores: Stores,
        retention: Retention | None,
    ) -> None:
        scalars = state.scalars
        self._step_input = step_input
        self._condition = condition
        self._units = units
        self._copy_topic = copies
        self.number: int = scalars.get("round", 0)
        self.epoch: int = scalars.get("epoch", 0)
        self._arrived = {side: _counts_of(scalars.get("arrived", {}).get(name, {})) for side, name in _STORED.items()}
        self.cursor = from_json_value(ProbeCursor, scalars["place"], WHERE) if scalars.get("place") else None
        copied = from_json_value(tuple[MigrationCopy, ...], scalars.get("copied", ()), WHERE)
        self._copies = {each.migration.id: each for each in copied}
        self.copy_retention = from_json_value(CopyRetention, scalars.get("needing", {"tasks": copies.tasks}), WHERE)
        self._stores = stores
        self._retention = retention
        self._retained_since: int = scalars.get("since", 0)
        self._probes: dict[JoinSide, pa.RecordBatch | None] = {
            side: next(iter(state.runs.get(_PROBES[side], ())), None) for side in JoinSide
        }
        self.copy_parts: list[pa.RecordBatch] = []
        self.counts: Counter[str] = Counter()
        self._inbox = RoundInbox.of(state, step_input.upstream_units)
        self.counts["rows"] = self._inbox.accept(step_input, condition, self.number)

    def begin_round(self) -> bool:
        """Begin the next router round, up to its probes; returns False if it is not complete."""
        number = self._inbox.next_round(self.number)
        if number is None:
            return False
        self.number = number
        round_input = self._inbox.take_round(number)
        commands = round_input.commands
        if commands is not None and commands.epoch != self.epoch:
            self._apply_commands(commands, round_input.clock)
        else:
            self._expire(round_input.clock)
        for side in JoinSide:
            tuples, probes = round_input.stores[side], round_input.probes[side]
            self._stores[side].begin_round()
            if tuples is not None:
                self._count_arrivals(side, tuples)
                self._stores[side].append(tuples)
            self._probes[side] = self._sort_probes(side, probes)
            self.counts["stored"] += 0 if tuples is None else tuples.num_rows
            self.counts["probes"] += 0 if probes is None else probes.num_rows
        self.cursor = ProbeCursor()
        return True

    def probe(self, probe_results: ProbeResults) -> bool:
        """Continue the round's probes; returns False if the limit was reached before the end."""
        assert self.cursor is not None
        for side in range(self.cursor.side, len(JoinSide)):
            cursor = self.cursor if side == self.cursor.side else ProbeCursor(JoinSide(side))
            next_cursor = probe_results.probe(self._probes[cursor.side], self._stores[cursor.side.other], cursor)
            if next_cursor is not None:
                self.cursor = next_cursor
                return False
        self.cursor = None
        self._probes = dict.fromkeys(JoinSide)
        for store in self._stores.values():
            store.settle()
        return True

    @property
    def has_more(self) -> bool:
        """Whether there is more to do without further messages: probes beyond the limit, or complete router rounds."""
        return self.cursor is not None or self._inbox.next_round(self.number) is not None

    def _count_arrivals(self, side: JoinSide, tuples: pa.RecordBatch) -> None:
        """Count tuples to be stored by unit; raises `InvalidBatchError` if a unit does not belong to the task."""
        arrived = np.bincount(tuples.column(UNIT).to_numpy(), minlength=MAX_UNITS)
        if others := [int(unit) for unit in np.flatnonzero(arrived) if unit not in self._units]:
            raise InvalidBatchError(f"{self._where}: tuples of units {others}, which belong to other tasks")
        self._arrived[side] += arrived

    def _sort_probes(self, side: JoinSide, probes: pa.RecordBatch | None) -> pa.RecordBatch | None:
        if probes is None or not self._stores[side.other].index.needs_sorted_probes:
            return probes
        return probes.take(pa.array(sort_order(numbers_of(probes, 0))))

    def _apply_commands(self, commands: EpochCommands, clock: float | None) -> None:
        """Apply an epoch's commands at the cut before this round: drop, import, then copy from the resulting store.

        Expired tuples are purged in between, when the fewest migrations are copied and not dropped.
        """
        if commands.epoch < self.epoch:
            raise InvalidCommandsError(f"{self._where}: epoch {commands.epoch} does not follow epoch {self.epoch}")
        self.epoch = commands.epoch
        self._retained_since = commands.retained_since
        self.copy_retention.apply(commands)
        drops = [each.migration for each in commands.cutovers if each.migration.giver in self._units]
        imports = [each for each in commands.cutovers if each.migration.receiver in self._units]
        for side in JoinSide:
            self._drop(side, [migration for migration in drops if migration.side == side])
        self._expire(clock)
        for cutover, messages in self._copy_topic.read(self._step_input.read_topic, imports):
            self._import_copy(cutover, messages)
        self._copy_out([migration for migration in commands.copies if migration.giver in self._units])

    def _expire(self, clock: float | None) -> None:
        """Expire tuples by the retention time and by the commands."""
        expired = first_seq(self._retained_since)
        if self._retention is not None:
            if clock is not None:
                self._retention = self._retention.advance_to(self.number, clock)
            expired = max(expired, self._retention.expired)
        leaving = {copied.migration.side for copied in self._copies.values()}
        for side, store in self._stores.items():
            store.expire(expired, purging=side not in leaving)

    def _drop(self, side: JoinSide, migrations: Sequence[StateMigration]) -> None:
        """Drop exactly the tuples that were copied, for migrations of one side."""
        if not migrations:
            return
        copies = [self._copies.pop(migration.id, None) for migration in migrations]
        cuts = []
        for piece, copied in zip(migrations, copies, strict=True):
            if copied is None or copied.migration != piece:
                raise InvalidCommandsError(
                    f"{self._where}: piece {piece.id} was not copied here, but is to be cut over"
                )
            cuts.append(MigrationCut(piece, copied.before_seq))
        counts = self._stores[side].drop(cuts)
        for copied, dropped in zip(copies, counts, strict=True):
            assert copied is not None
            if dropped != copied.rows:
                raise InvalidCommandsError(
                    f"{self._where}: {copied.rows} tuples of piece {copied.migration.id} "
                    f"were copied, but {dropped} are "
                    "present now: a concurrent migration moved the same keys"
                )
        self.counts["dropped"] += sum(counts)

    def _import_copy(self, cutover: Cutover, messages: Iterable[Message]) -> None:
        """Store the copy of a migration, which is among some messages."""
        tuples = import_copy(cutover, messages)
        if tuples is not None:
            self.counts["imported"] += tuples.num_rows
            self._stores[cutover.migration.side].append(tuples)

    def _copy_out(self, migrations: Sequence[StateMigration]) -> None:
        """Copy migrations to the topic of copies, in their order."""
        before_seq = first_seq(self.number)
        extracted: dict[int, list[pa.RecordBatch]] = {}
        for side in JoinSide:
            if own := [migration for migration in migrations if migration.side == side]:
                batches = self._stores[side].extract([MigrationCut(migration, before_seq) for migration in own])
                extracted |= {migration.id: copied for migration, copied in zip(own, batches, strict=True)}
        for piece in migrations:
            parts = encode_copy(piece, self._condition.tuple_schema(piece.side), extracted[piece.id])
            rows, size = sum(part.num_rows for part in parts), sum(bytes_of(part) for part in parts)
            copied = MigrationCopy(piece, before_seq, rows, size, len(parts), self._step_input.round.number)
            self._copies[piece.id] = copied
            self.copy_parts += parts
            self.counts["copied"] += rows

    @property
    def _where(self) -> str:
        return f"{self._step_input.stage}, task {self._step_input.unit}, router round {self.number}"

    def state(self) -> State:
        """Return the state after the round."""
        scalars = {
            **self._inbox.scalars(),
            "round": self.number,
            "epoch": self.epoch,
            "arrived": self._arrived_counts(),
            "place": to_json_value(self.cursor),
            "copied": to_json_value([self._copies[migration] for migration in sorted(self._copies)]),
            "needing": to_json_value(self.copy_retention),
            "stores": {_STORED[side]: store.layout for side, store in self._stores.items()},
        }
        runs = {_STORED[side]: store.batches for side, store in self._stores.items()}
        runs |= {_DROPPED[side]: store.dead for side, store in self._stores.items()}
        runs |= {_PROBES[side]: () if batch is None else (batch,) for side, batch in self._probes.items()}
        runs[WAITING] = self._inbox.batches()
        if self._retention is not None:
            scalars["retention"] = to_json_value(self._retention)
        if self._retained_since:
            scalars["since"] = self._retained_since
        return State(scalars, {name: batches for name, batches in runs.items() if batches})

    def _arrived_counts(self) -> dict[str, dict[str, int]]:
        """Return how many tuples routers have sent to be stored, by side and unit."""
        return {
            name: {str(unit): int(self._arrived[side][unit]) for unit in np.flatnonzero(self._arrived[side])}
            for side, name in _STORED.items()
        }

    def gauges(self) -> dict[str, Any]:
        """Return gauges: tuples by unit, progress, and the migrations that are copied and not cut over yet.

        Expired tuples count as stored until they are removed.
        """
        return {
            "units": {
                str(unit): {
                    "stored": {name: int(self._stores[side].stored[unit]) for side, name in _STORED.items()},
                    "arrived": {name: int(self._arrived[side][unit]) for side, name in _STORED.items()},
                }
                for unit in self._units
            },
            "bytes": sum(store.bytes for store in self._stores.values()),
            "round": self.number,
            "epoch": self.epoch,
            "pending": {
                "rounds": max(self._inbox.last_complete_round - self.number, 0) + (self.cursor is not None),
                "tuples": self._inbox.tuples,
                "probes": sum(batch.num_rows for batch in self._probes.values() if batch is not None),
            },
            "copied": {str(migration): copied.gauges() for migration, copied in sorted(self._copies.items())},
        }


def _read_retention(state: State, ttl: float) -> Retention:
    """Return the retention of a state, with the job's current `ttl`."""
    raw = state.scalars.get("retention")
    return Retention(ttl) if raw is None else replace(from_json_value(Retention, raw, WHERE), ttl=ttl)


def _read_stores(state: State, cached: Stores | None, condition: Condition, shape: Shape) -> Stores:
    """Return the stores of a state, by side: the cached ones, if they are of this state."""
    layouts = state.scalars.get("stores", {})
    stores = {}
    for side, name in _STORED.items():
        band = condition.key_band.from_side(side.other)  # the store of a side is probed by the other one
        batches, dead = state.runs.get(name, ()), state.runs.get(_DROPPED[side], ())
        if name not in layouts:
            stores[side] = TupleStore(band, shape)
        elif cached is not None and cached[side].has_state(layouts[name], batches, dead):
            stores[side] = cached[side]
        else:
            stores[side] = TupleStore.of(batches, dead, layouts[name], band, shape)
    return stores


def _counts_of(counts: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Return counts by unit as an array."""
    array = np.zeros(MAX_UNITS, np.int64)
    for unit, count in counts.items():
        array[int(unit)] = count
    return array
