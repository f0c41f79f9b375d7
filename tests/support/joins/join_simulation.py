"""A join as one process without Kafka and Spark: real routers, units and controller, which may die at any call.

Rounds of both stages and looks of the controller overlap at random, as they do on Spark.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from springline.spark_jobs.streaming.checkpoints.store import UnitCheckpoint, feedback_needed_by
from springline.spark_jobs.streaming.errors import DiskFullError, FencedError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join import rebalance
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.history import BroadcastValue, read_history
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.report import UnitReport, sum_counts
from springline.spark_jobs.streaming.runtime.report_log import ReportReader
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.segment_files import SegmentFiles
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot, StateStore, next_offsets
from springline.spark_jobs.streaming.runtime.worker.unit import SteppedRound
from springline.testing.job_run import RestoringWorker
from springline.testing.memory_log import KilledError, MemoryLog

MAX_UNITS = 4
FIELDS = {"id": "int", "k": "int", "v": "int"}
Row = tuple[int, int, int]  # id, k, v


def join_of(
    on: str, control: RebalanceConfig, *, itself: bool = False, max_units: int = MAX_UNITS, tasks: int = 2
) -> JoinJob:
    """The join of topics `left` and `right`, or of `left` with itself; its results are the ids of pairs."""
    left, right = Relation("l", FIELDS), Relation("r", FIELDS)
    condition = Condition.of(left, right, on, ["l.id AS l", "r.id AS r"])
    sources = RelationSource("left", left), RelationSource("left" if itself else "right", right)
    return JoinJob("j", *sources, condition, control, max_units, tasks, max_messages_per_round=2)


class JoinSimulation:
    """A join's driver, workers and helm, and what outlives them; `chance` says what comes before what."""

    def __init__(
        self, job: JoinJob, folder: Path, chance: random.Random, partitions: int = 2, most_pairs: int = 1_000_000
    ) -> None:
        self.chance = chance
        self.job = job
        self.log = MemoryLog({**dict.fromkeys(job.sources, partitions), **topics_of_stages(job)})
        self.folder = JobFolder(folder / "job")
        self.states = folder / "states"
        self._most_pairs = most_pairs
        # Some runs lie on disk, or all of them, or none.
        spill_bytes = chance.choice([0, 2_000, 1 << 40])
        self.states_of = {
            name: StateFolders(self.states / name, folder / "disk" / name, spill_bytes) for name in ("route", "join")
        }
        self.stages = self._placed()
        self.rows = 0
        self.clock = 1.0
        self.polls = 0
        # The persisted states of stages, by unit.
        self.saved: dict[str, dict[int, tuple[UnitCheckpoint, PackedSnapshot]]] = {}
        self.cut: Counter[str] = Counter()  # messages that were deleted, by topic
        self._coming: list[tuple[str, int, bytes]] = []  # messages that are not written yet
        self._late: list[Any] = []  # rounds of units that zombies have worked out, and not sent yet
        self.start()

    def _placed(self) -> tuple[Stage, Stage]:
        route, join = place_stages(self.job.name, self.job.stages())
        arguments = {**join.arguments, "most_pairs": self._most_pairs}
        return route, replace(join, arguments=arguments)

    def start(self) -> None:
        """A driver and workers without memory."""
        self.job.prepare(self.folder)
        self.reports = ReportReader(self.stages, self.log)
        self.planners = {stage.name: self._planner(stage) for stage in self.stages}
        self.units = {stage.name: self._worker(stage) for stage in self.stages}
        self.controller = rebalance.Rebalancer(
            self.job.rebalance_config, self.folder, self.stages, self.log, self.reports
        )
        self.last: dict[str, RoundPlan] = {}
        self._running: dict[str, Iterator[None]] = {}

    def _worker(self, stage: Stage) -> RestoringWorker:
        return RestoringWorker(stage, self.states_of[stage.name], self.log, self)

    def feed(self, topic: str, rows: Sequence[Row], in_a_message: int) -> None:
        """Rows in messages of so many lines, to the partitions in turn; they come one by one while turns are made."""
        self.rows += len(rows)
        own = []
        for number, first in enumerate(range(0, len(rows), in_a_message)):
            lines = [",".join(map(str, row)) for row in rows[first : first + in_a_message]]
            own.append((topic, number % len(self.log.topics[topic]), "\n".join(lines).encode()))
        self._coming = [one for two in zip_longest(self._coming, own) for one in two if one is not None]

    def put(self, topic: str, value: bytes, rows: int) -> None:
        """A message that is to come, with so many rows that can be used."""
        self.rows += rows
        self._coming.append((topic, len(self._coming) % len(self.log.topics[topic]), value))

    def turn(self, steps: int = 9) -> None:
        """Some messages, and so many steps: a unit of a round of either stage, a look, what a zombie sends at last."""
        for _ in range(self.chance.randrange(5)):
            if self._coming:
                self.log.put(*self._coming.pop(0))
        for _ in range(steps):
            what = self.chance.random()
            if what < 0.1:
                self.run_controller()
            elif what < 0.13 and self._late:
                zombie, stepped = self._late.pop(self.chance.randrange(len(self._late)))
                zombie._send([stepped] if isinstance(stepped, SteppedRound) else [])
            else:
                self._step(self.chance.choice(self.stages))

    def run_controller(self) -> None:
        """A look of the controller, while rounds go on; writing a file is a call that the process may die at."""

        def counted(path: Path, value: Any) -> None:
            if self.chance.random() < 0.5:
                self._step(self.chance.choice(self.stages))
            self.log._count_call()
            write_json(path, value)

        self.polls += 1
        with patch.object(rebalance, "write_json", counted):
            self.controller.rebalance()

    def run(self, turns: int, dies_in: int | None = None, loses: str = "") -> bool:
        """Go on, and die after so many calls, if they come to that; whether the process died.

        One that dies may die once more while it starts. `loses` is a stage whose states are lost then, or `all`.
        """
        self.log.calls_until_death = dies_in
        try:
            for _ in range(turns):
                self.turn()
        except KilledError:
            self._lose(loses)
            self._restart()
            return True
        finally:
            self.log.calls_until_death = None
        return False

    def die_in_controller(self, calls: int, polls: int = 6) -> None:
        """Go on, and die after so many calls within a look."""
        try:
            for _ in range(polls):
                self.turn(4)
                self.log.calls_until_death = calls
                self.run_controller()
                self.log.calls_until_death = None
        except KilledError:
            self._restart()

    def run_full(self, turns: int) -> None:
        """Go on while there is no room for any run, and start again when there is."""
        with (
            patch.object(SegmentFiles, "_write_file", side_effect=DiskFullError("memory and disk are full")),
            suppress(DiskFullError),
        ):
            for _ in range(turns):
                self.turn()
        self._restart()

    def save(self) -> None:
        """Persist the states of units, one after another, and delete what none of them needs, as a job does."""
        for stage in self.stages:
            saved = self.saved.setdefault(stage.name, {})
            for unit in range(stage.units):
                store, newest = self.states_of[stage.name].store(unit), self.units[stage.name].reported_round(unit)
                if newest is not None and store.is_complete(*newest):
                    packed = store.pack(*newest)
                    needs = {int(giver): offset for giver, offset in packed.notes.get("needs", {}).items()}
                    saved[unit] = UnitCheckpoint(newest, next_offsets(packed.notes), True, needs), packed
                self._step(self.chance.choice(self.stages))
            if len(saved) == stage.units:
                states = [state for state, _ in saved.values()]
                if stage.reads_own_job:
                    self._delete(stage.topic, {k: at for each in states for k, at in each.offsets.items()})
                self._delete(stage.feedback, feedback_needed_by(states))

    def _delete(self, topic: str, before: Mapping[int, int]) -> None:
        for unit, offset in before.items():
            self.cut[topic] += sum(message.offset < offset for message in self.log.topics[topic][unit])
        self.log.delete(topic, before)

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """See `CheckpointStorage`."""
        checkpoint = self.saved.get(stage.name, {}).get(unit)
        if checkpoint is None or checkpoint[0].round_id > until:
            return None
        store.unpack(*checkpoint[0].round_id, checkpoint[1])
        return checkpoint[0].round_id

    def _restart(self) -> None:
        self.log.calls_until_death = self.chance.choice([None, 0, 1, 2, 5, 10, 30])
        try:
            self.start()
        except KilledError:
            self.log.calls_until_death = None
            self.start()
        self.log.calls_until_death = None

    def take_over(self) -> None:
        """A second driver starts while the first one lives, which then plans nothing, and what it runs does no harm."""
        planners, units, last = self.planners, self.units, dict(self.last)
        self.start()
        for stage in self.stages:
            name = stage.name
            if name in last and (plan := self.planners[name].after(last[name])) is not None:
                for unit in range(plan.units):
                    units[name].run(plan, self.planners[name].broadcast_values_of(plan), unit)
                try:
                    planners[name].after(plan)
                except FencedError:
                    continue

    def befall(self, what: str, number: int) -> None:
        """Go on, and let something happen: its name, and a number that says when, or how much of it."""
        if what == "units":
            self.want_units(1 + number % MAX_UNITS)
            self.run(number % 3)
        elif what == "die looking":
            self.die_in_controller(number % 3)
        elif what == "save":
            self.run(number % 4)
            self.save()
        elif what == "full":
            self.run_full(1 + number // 10)
        elif what == "second driver":
            self.run(number % 4)
            self.take_over()
        elif what == "partition":
            self.run(number % 4)
            self.grow(self.job.sources[number % len(self.job.sources)])
        else:
            self.run(1 + number // 10, number, what.removeprefix("lose "))

    def grow(self, topic: str) -> None:
        """One more partition, to which some of the messages go that are still to come."""
        self.log.add_partition(topic)
        many = len(self.log.topics[topic])
        self._coming = [
            (name, self.chance.randrange(many) if name == topic else unit, value) for name, unit, value in self._coming
        ]

    def want_units(self, units: int) -> None:
        """As the command does."""
        rebalance.request_units(self.folder, units, self.job.max_units)

    def finish(self, turns: int = 600) -> None:
        """Go on until all rows are through, and probes answered; fails after so many turns."""
        for _ in range(turns):
            self.turn()
            if not self._coming and self.counts("route")["rows"] == self.rows:
                break
        else:
            raise AssertionError(f"rows are left: {self.counts('route')}")
        last = max(self._reports("route").values(), key=lambda report: report.round.number).round.number
        for _ in range(turns):
            self.turn()
            gauges = [report.round.gauges for report in self._reports("join").values()]
            if all(
                gauge["round"] > last or (gauge["round"] == last and not gauge["pending"]["probes"]) for gauge in gauges
            ):
                break
        else:
            raise AssertionError(f"probes are left after router round {last}: {gauges}")

    def settle(self, turns: int = 300) -> None:
        """Go on until nothing is under way any more, as many units are used as are wanted, and none is late."""
        for _ in range(turns):
            self.turn()
            course = rebalance.read_controller_state(self.folder)
            requested_units = rebalance.requested_units(self.folder, self.job.rebalance_config.units)
            is_idle = (
                course is not None
                and not (course.copying or course.pending)
                and len(course.table.units) == requested_units
            )
            if is_idle and all(
                report.round.gauges["epoch"] == course.table.epoch for report in self._reports("join").values()
            ):
                return
        raise AssertionError(f"still under way: {course}")

    def counts(self, stage: str) -> Counter[str]:
        """What all units of a stage have counted."""
        return sum_counts(self._reports(stage).values())

    def stored(self) -> dict[int, int]:
        """How many tuples each unit stores."""
        units = rebalance.units_of_gauges(report.round.gauges for report in self._reports("join").values())
        return {unit: sum(own["stored"].values()) for unit, own in units.items()}

    def switched(self) -> set[int]:
        """The pieces that rounds of routers had units switch to."""
        tables = read_history(self.stages[0], self.log).broadcast_values.values()
        return {each["migration"]["id"] for table in tables for each in table["commands"]["cutovers"]}

    def pairs(self) -> Counter[tuple[int, int]]:
        """The ids of all pairs that were emitted."""
        return Counter((row["l"], row["r"]) for row in self.results())

    def results(self) -> list[dict[str, Any]]:
        """All lines of the topic of results, as a plain reader sees them."""
        return [
            json.loads(line)
            for message in self.messages(self.job.results)
            for line in bytes(message.value).split(b"\n")[:-1]
        ]

    def messages(self, topic: str) -> list[Message]:
        """All messages of a topic."""
        return [message for unit in self.log.topics[topic] for message in unit]

    def _step(self, stage: Stage) -> None:
        """One unit of the round that is under way, or of the next one."""
        name = stage.name
        if name not in self._running:
            self._running[name] = self._round(stage)
        if next(self._running[name], "over") == "over":
            del self._running[name]

    def _round(self, stage: Stage) -> Iterator[None]:
        planner = self.planners[stage.name]
        self.clock += 1.0
        plan = planner.after(self.last.get(stage.name) or planner.begin())
        if plan is None:
            return
        for unit in self.chance.sample(range(plan.units), plan.units):
            contents = planner.broadcast_values_of(plan)
            if self.chance.random() < 0.05:  # Spark takes the worker for dead, and it goes on
                zombie = self._worker(stage)
                self._late.append((zombie, zombie.begin(plan, contents, unit)))
            self.units[stage.name].run(plan, contents, unit)
            yield
        self.last[stage.name] = plan

    def _planner(self, stage: Stage) -> Planner:
        def contents() -> dict[str, BroadcastValue]:
            return {
                name: BroadcastValue.of(read_json(self.folder.path / file))
                for name, file in stage.broadcast_files.items()
            }

        return Planner(stage, self.log, lambda: self.clock, contents)

    def _reports(self, name: str) -> Mapping[int, UnitReport]:
        return self.reports.reports(name)

    def _lose(self, what: str) -> None:
        stages = [stage for stage in self.stages if what in (stage.name, "all")]
        for stage in stages:
            shutil.rmtree(self.states_of[stage.name].memory, ignore_errors=True)
        if what == "a unit":
            stage = self.chance.choice(self.stages)
            folder = self.states_of[stage.name].folder(self.chance.randrange(stage.units))
            shutil.rmtree(folder, ignore_errors=True)
