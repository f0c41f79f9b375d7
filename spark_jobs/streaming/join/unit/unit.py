"""The unit's step: stores tuples of both sides, and answers probes with the pairs they form with stored tuples.

It processes a router round as a whole, once every router unit has ended it: first the commands of the round's epoch,
then it stores the round's tuples, then it probes. A stored tuple matches only probes with a greater seq. Probes beyond
the limit of a stage's round are queued, and nothing is stored, copied or cut over before they are answered. With a
limited retention, the round's clock determines which tuples match its probes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidCommandsError
from springline.spark_jobs.streaming.join.unit.compaction import Shape
from springline.spark_jobs.streaming.join.unit.copy_retention import CopyRetention
from springline.spark_jobs.streaming.join.unit.inbox import WAITING, WHERE, RoundInbox
from springline.spark_jobs.streaming.join.unit.migration import MigrationCopy, encode_copy, import_copy
from springline.spark_jobs.streaming.join.unit.migration_select import MigrationCut
from springline.spark_jobs.streaming.join.unit.probe import ProbeCursor, ProbeResults
from springline.spark_jobs.streaming.join.unit.retention import Retention
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun, bytes_of, merge_all
from springline.spark_jobs.streaming.join.unit.store import CachedRuns, TupleStore
from springline.spark_jobs.streaming.join.wire import Cutover, EpochCommands, JoinSide, StateMigration, first_seq
from springline.spark_jobs.streaming.runtime.step import Input, Output, State

_STORED = {JoinSide.LEFT: "left", JoinSide.RIGHT: "right"}
_PROBES = {JoinSide.LEFT: "probes-left", JoinSide.RIGHT: "probes-right"}


class JoinUnit:
    """The step of one unit of the join `query`; copies of migrations are sent to the topic `copies`.

    `condition` is a `Condition` as JSON, `most_pairs` the maximum number of pairs that a round of the stage emits,
    `shape` the sizes of the store. Tuples are kept for `ttl` seconds (see `Retention`), or without limit.
    """

    def __init__(
        self,
        query: str,
        condition: Mapping[str, Any],
        copies: str,
        most_pairs: int = 1_000_000,
        shape: Shape | None = None,
        ttl: float | None = None,
    ) -> None:
        self._query = query
        self._condition = Condition.from_json(condition)
        self._copies = copies
        self._max_pairs = most_pairs
        self._shape = shape or Shape()
        self._retention_seconds = ttl
        self._cached_runs: dict[
            int, CachedRuns
        ] = {}  # the runs of each unit's last state, with their cached properties

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        stores = _read_stores(state, self._cached_runs.get(step_input.unit, {}), self._shape)
        retention = None if self._retention_seconds is None else _read_retention(state, self._retention_seconds)
        unit_round = _UnitRound(state, step_input, self._condition, self._copies, stores, retention)
        probe_results = ProbeResults(self._condition, self._query, self._max_pairs)
        while True:
            if unit_round.cursor is None:
                if probe_results.is_full or not unit_round.begin_round():
                    break
            elif not unit_round.probe(probe_results):
                break
        unit_round.counts["pairs"] = probe_results.pairs
        self._cached_runs[step_input.unit] = unit_round.cached_runs
        return Output(
            unit_round.state(), results=probe_results.results, feedback=unit_round.copy_parts,
            counts=dict(sorted(unit_round.counts.items())),
            gauges=unit_round.gauges(), feedback_needed_from=unit_round.copy_retention.deletable_before,
        )  # fmt: skip


class _UnitRound:
    """One round of the stage in a unit.

    `cursor` is where the probes of router round `number` are to be resumed.
    """

    def __init__(
        self,
        state: State,
        step_input: Input,
        condition: Condition,
        copies: str,
        stores: Mapping[JoinSide, TupleStore],
        retention: Retention | None,
    ) -> None:
        scalars = state.scalars
        self._step_input = step_input
        self._condition = condition
        self._copy_topic = copies
        self.number: int = scalars.get("round", 0)
        self.epoch: int = scalars.get("epoch", 0)
        self._arrived = Counter(scalars.get("arrived", {}))
        self.cursor = from_json_value(ProbeCursor, scalars["place"], WHERE) if scalars.get("place") else None
        copied = from_json_value(tuple[MigrationCopy, ...], scalars.get("copied", ()), WHERE)
        self._copies = {each.migration.id: each for each in copied}
        self.copy_retention = from_json_value(CopyRetention, scalars.get("needing", {}), WHERE)
        self._stores = dict(stores)
        self._retention = retention
        self._retained_since: int = scalars.get("since", 0)
        self._probes: dict[JoinSide, SortedRun | None] = {
            side: next((SortedRun(batch) for batch in state.runs.get(_PROBES[side], ())), None) for side in JoinSide
        }
        self.copy_parts: list[pa.RecordBatch] = []
        self.counts: Counter[str] = Counter()
        self._inbox = RoundInbox.of(state)
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
            self._stores[side] = self._stores[side].with_run(round_input.stores[side])
            self.counts["stored"] += len(round_input.stores[side] or ())
            self._arrived[_STORED[side]] += len(round_input.stores[side] or ())
            self.counts["probes"] += len(round_input.probes[side] or ())
        self._probes = dict(round_input.probes)
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
        self._stores = {side: store.settle() for side, store in self._stores.items()}
        return True

    def _apply_commands(self, commands: EpochCommands, clock: float | None) -> None:
        """Apply an epoch's commands at the cut before this round: drop, import, then copy from the resulting store.

        Expired tuples are purged in between, when the fewest migrations are copied and not dropped.
        """
        if commands.epoch < self.epoch:
            raise InvalidCommandsError(f"{self._where}: epoch {commands.epoch} does not follow epoch {self.epoch}")
        self.epoch = commands.epoch
        self._retained_since = commands.retained_since
        self.copy_retention.apply(commands)
        unit = self._step_input.unit
        for side in JoinSide:
            self._drop(
                [
                    each.migration
                    for each in commands.cutovers
                    if (each.migration.giver, each.migration.side) == (unit, side)
                ]
            )
        self._expire(clock)
        for side in JoinSide:
            self._import_copies(
                [each for each in commands.cutovers if (each.migration.receiver, each.migration.side) == (unit, side)]
            )
            self._copy_out(
                [migration for migration in commands.copies if (migration.giver, migration.side) == (unit, side)]
            )

    def _expire(self, clock: float | None) -> None:
        """Expire tuples by the retention time and by the commands."""
        expired = first_seq(self._retained_since)
        if self._retention is not None:
            if clock is not None:
                self._retention = self._retention.advance_to(self.number, clock)
            expired = max(expired, self._retention.expired)
        leaving = {copied.migration.side for copied in self._copies.values()}
        for side, store in self._stores.items():
            self._stores[side] = store.expire(expired, purging=side not in leaving)

    def _drop(self, migrations: Sequence[StateMigration]) -> None:
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
        side = migrations[0].side
        self._stores[side], counts = self._stores[side].without(cuts)
        for copied, dropped in zip(copies, counts, strict=True):
            assert copied is not None
            if dropped != copied.rows:
                raise InvalidCommandsError(
                    f"{self._where}: {copied.rows} tuples of piece {copied.migration.id} "
                    f"were copied, but {dropped} are "
                    "present now: a concurrent migration moved the same keys"
                )
        self.counts["dropped"] += sum(counts)

    def _import_copies(self, cutovers: Sequence[Cutover]) -> None:
        """Store the copies of migrations of one side."""
        runs = [
            import_copy(each, self._step_input.read_topic(self._copy_topic, each.migration.giver, each.start, each.end))
            for each in cutovers
        ]
        if run := merge_all(runs):
            self.counts["imported"] += len(run)
            side = cutovers[0].migration.side
            self._stores[side] = self._stores[side].with_copy(run)

    def _copy_out(self, migrations: Sequence[StateMigration]) -> None:
        """Copy migrations of one side to the topic of copies."""
        if not migrations:
            return
        side, before_seq = migrations[0].side, first_seq(self.number)
        extracted = self._stores[side].extract([MigrationCut(migration, before_seq) for migration in migrations])
        for piece, batches in zip(migrations, extracted, strict=True):
            parts = encode_copy(piece, self._condition.tuple_schema(side), batches)
            rows, size = sum(part.num_rows for part in parts), sum(bytes_of(part) for part in parts)
            copied = MigrationCopy(piece, before_seq, rows, size, len(parts), self._step_input.round.number)
            self._copies[piece.id] = copied
            self.copy_parts += parts
            self.counts["copied"] += rows

    @property
    def _where(self) -> str:
        return f"{self._step_input.stage}, unit {self._step_input.unit}, router round {self.number}"

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
        runs |= {_PROBES[side]: () if run is None else (run.batch,) for side, run in self._probes.items()}
        runs[WAITING] = self._inbox.batches()
        if self._retention is not None:
            scalars["retention"] = to_json_value(self._retention)
        if self._retained_since:
            scalars["since"] = self._retained_since
        return State(scalars, {name: batches for name, batches in runs.items() if batches})

    def _arrived_counts(self) -> dict[str, int]:
        """Return how many tuples routers have sent to be stored here."""
        return {name: self._arrived[name] for name in _STORED.values()}

    @property
    def cached_runs(self) -> CachedRuns:
        """The stored runs, by the identity of their batches."""
        return {id(each.run.batch): each.run for store in self._stores.values() for each in store.segments}

    def gauges(self) -> dict[str, Any]:
        """Return gauges: stored tuples, progress, and the migrations that are copied and not cut over yet.

        Expired tuples count as stored until they are removed.
        """
        return {
            "stored": {_STORED[side]: len(store) for side, store in self._stores.items()},
            "bytes": sum(store.bytes for store in self._stores.values()),
            "arrived": self._arrived_counts(),
            "round": self.number,
            "epoch": self.epoch,
            "pending": {
                "rounds": max(self._inbox.last_complete_round - self.number, 0) + (self.cursor is not None),
                "tuples": self._inbox.tuples,
                "probes": sum(len(run or ()) for run in self._probes.values()),
            },
            "copied": {str(migration): copied.gauges() for migration, copied in sorted(self._copies.items())},
        }


def _read_retention(state: State, ttl: float) -> Retention:
    """Return the retention of a state, with the job's current `ttl`."""
    raw = state.scalars.get("retention")
    return Retention(ttl) if raw is None else replace(from_json_value(Retention, raw, WHERE), ttl=ttl)


def _read_stores(state: State, cached_runs: CachedRuns, shape: Shape) -> dict[JoinSide, TupleStore]:
    """Return the stores of a state, by side."""
    layouts = state.scalars.get("stores", {})
    return {
        side: TupleStore.of(state.runs.get(name, ()), layouts.get(name), cached_runs, shape)
        for side, name in _STORED.items()
    }
