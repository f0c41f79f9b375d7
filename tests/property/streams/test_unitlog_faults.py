"""Whatever dies, and whatever is lost, the results of a job of two stages are those of a run without faults."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections import Counter, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.errors import (
    FencedError,
    MessagesLostError,
    MissingStateError,
    NeverRanError,
    RoundError,
)
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.runtime.driver.lives import check_checkpoints_planned
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.savepoints import BEGINNING, Savepoint, rewind
from springline.spark_jobs.streaming.runtime.history import BroadcastValue
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.runtime.stamps import HEADER, Stamp
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import next_offsets
from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.runtime.worker.unit import RoundEntry, StageWorker
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.windows.mapper import Mapper
from springline.testing.job_run import RestoringWorker
from springline.testing.memory_log import KilledError, MemoryLog
from tests.support.examples import examples
from tests.support.streams.saved_states import SavedStates, packed_savepoint

PARTITIONS = 3  # of which one mapper reads two
ROWS = [f"{1_000_000_000 + i / 10},{'abc'[i % 3]},{i}\n" for i in range(240)]
STREAM = Stream(
    "S",
    (Field("time", "timestamp(s)"), Field("key", "text"), Field("n", "int")),
    "time",
    idle_timeout=5.0,
    max_future_skew=None,
)
POISON = b"poison\n"
QUERIES = {"sums": "SELECT key, count(*) AS rows, sum(n) AS total FROM S GROUP BY key WINDOWING 5 s"}
JOB = WindowsJob("job", "rows", STREAM, QUERIES, parallelism=2, max_messages_per_round=2)


class Faulty(Mapper):
    """A mapper that does not get over a certain message."""

    def __call__(self, state: State, step_input: Input) -> Output:
        """One round."""
        messages = list(step_input.messages)
        if any(bytes(message.value) == POISON for message in messages):
            raise ValueError(f"no mapper can read this, at {random.random()}")
        return super().__call__(state, replace(step_input, messages=messages))


FAULT_NAMES = ["die"] * 3 + ["lose state", "lose checkpoint", "second driver", "save", "save, cut, lose", "rewind"]
FAULTS = st.lists(st.tuples(st.sampled_from(FAULT_NAMES), st.integers(0, 60)), max_size=6)


@dataclass
class Lane:
    """The open rounds of a stage, at most two, and what its worker has in memory of them."""

    rounds: deque[RoundPlan] = field(default_factory=deque)
    to_begin: deque[tuple[RoundPlan, int]] = field(default_factory=deque)  # rounds of units whose steps have not run
    to_commit: deque[RoundEntry] = field(default_factory=deque)


class Simulation:
    """A job's driver and workers as one process that may die, and what outlives it: logs, states, the checkpoint.

    Rounds overlap: `chance` decides which step runs next, and which round is committed.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        mapping, reducing = place_stages(JOB.name, JOB.stages())
        self.stages = replace(mapping, step=f"{__name__}:Faulty"), reducing
        self.log = MemoryLog({JOB.topic: PARTITIONS, **topics_of_stages(JOB)})
        self.rows = len(ROWS)
        for index in range(0, len(ROWS), 10):
            self.log.put(JOB.topic, index // 10 % PARTITIONS, "".join(ROWS[index : index + 10]).encode())
        self.clock = 0.0
        self.poisoned: Counter[tuple[int, int]] = Counter()
        self.states = {stage.name: StateFolders(folder / "job" / stage.name) for stage in self.stages}
        self.saved = SavedStates()
        self.committed: dict[str, RoundPlan] = {}  # what Spark's checkpoint knows: the last round that was committed
        self.zombies: list[tuple[StageWorker, RoundEntry]] = []  # of workers that were abandoned and live
        self.savepoint: Savepoint = BEGINNING
        self.start()

    def start(self) -> None:
        """A driver and workers without memory; as often as a round fails on the way."""
        for _ in range(20):
            try:
                self._start()
                return
            except RoundError:
                continue
        raise AssertionError("a round fails for ever")

    def _start(self) -> None:
        self.log.calls_until_death = None
        for stage in self.stages:
            check_checkpoints_planned(stage, self.log, self.saved.round_id)
        queries = {"queries": BroadcastValue.of(to_json_value(JOB.registry()))}
        self.planners = {stage.name: Planner(stage, self.log, self.time, lambda: queries) for stage in self.stages}
        self.units = {
            stage.name: RestoringWorker(stage, self.states[stage.name], self.log, self.saved) for stage in self.stages
        }
        self.lanes = {stage.name: Lane() for stage in self.stages}

    def save(self) -> None:
        """Keep the newest state of every unit elsewhere, and cut the log between the stages accordingly."""
        for stage in self.stages:
            for unit in range(stage.units):
                reported = self.units[stage.name].reported_round(unit)
                if reported is not None:
                    self.saved.save(stage, unit, self.states[stage.name].store(unit), reported)
                    if stage.stamped:
                        offsets = next_offsets(self.saved.newest[stage.name, unit][1].notes)
                        self.log.log_start_offsets[stage.topic, unit] = offsets[unit]

    def keep(self) -> None:
        """Make a savepoint: no round of the mappers is planned until the reducers have come up with them."""
        self.end_rounds()
        for _ in range(20):
            if (savepoint := packed_savepoint(self.stages, self.states, self.log)) is not None:
                self.savepoint = savepoint
                return
            self._round(self.stages[1])

    def end_rounds(self) -> None:
        """Complete the open rounds of the mappers, without planning more."""
        while self.lanes["map"].rounds:
            self._round(self.stages[0], plans=False)

    def rewind(self) -> None:
        """Go back to the last savepoint, or to the beginning; what was sent in between lies about."""
        rewind(self.stages, self.log, self.savepoint, self.clock, self.saved.save_packed)
        self.committed.clear()
        self.start()

    def grow(self) -> None:
        """One more partition, with rows of any time; the job goes on."""
        partition = self.log.add_partition(JOB.topic)
        for index in range(0, len(ROWS), 40):
            self.log.put(JOB.topic, partition, "".join(ROWS[index : index + 10]).encode())
            self.rows += 10

    def late(self) -> int:
        """The rows of the dead letters: each a group that came late."""
        dead_letters = [message for unit in self.log.topics[JOB.dead_letters] for message in unit]
        assert all(letter.headers["reason"].startswith(b"late: ") for letter in dead_letters)
        return sum(json.loads(line)["rows()"] for letter in dead_letters for line in bytes(letter.value).splitlines())

    def poison(self, partition: int) -> None:
        """A message that no round gets over."""
        self.log.put(JOB.topic, partition, POISON)
        self.poisoned[partition, self.log.topics[JOB.topic][partition][-1].offset] += 1

    def put_aside(self) -> Counter[tuple[int, int]]:
        """The partitions and offsets of the messages that were put aside."""
        headers = [each.headers for dead_letters in self.log.topics[JOB.dead_letters] for each in dead_letters]
        return Counter((int(each["partition"]), int(each["offset"])) for each in headers)

    def time(self) -> float:
        """A clock that goes on with every look."""
        self.clock += 0.4
        return self.clock

    def turn(self) -> bool:
        """A round of each stage that has anything to do."""
        moved = [self._round(stage) for stage in self.stages]
        if self.zombies and self.chance.random() < 0.3:
            worker, stepped = self.zombies.pop(0)
            with suppress(MissingStateError):  # of a round that was complete, whose state is lost since: the task fails
                worker.commit([stepped])
        return any(moved)

    def _round(self, stage: Stage, *, plans: bool = True) -> bool:
        """Go on until the oldest open round is complete; steps of the next one may have run by then."""
        lane, had_messages = self.lanes[stage.name], False
        while True:
            if plans and len(lane.rounds) < 2 and (plan := self._plan(stage)) is not None:
                lane.rounds.append(plan)
                lane.to_begin.extend((plan, unit) for unit in range(plan.units))
                had_messages = had_messages or plan.messages > 0
            if not lane.rounds:
                return False
            if lane.to_begin and (not lane.to_commit or self.chance.random() < 0.5):
                self.begin(stage)
            elif lane.to_commit:
                self.commit(stage)
            left = {plan.round_id for plan, _ in lane.to_begin} | {each.plan.round_id for each in lane.to_commit}
            if lane.rounds[0].round_id not in left:
                self.committed[stage.name] = lane.rounds.popleft()
                return had_messages

    def _plan(self, stage: Stage) -> RoundPlan | None:
        planner, lane = self.planners[stage.name], self.lanes[stage.name]
        last = lane.rounds[-1] if lane.rounds else self.committed.get(stage.name) or planner.begin()
        return planner.after(last)

    def begin(self, stage: Stage) -> None:
        """Run the next step; when it fails, what was stepped is committed before it is tried again, as in a task."""
        lane, planner = self.lanes[stage.name], self.planners[stage.name]
        plan, unit = lane.to_begin[0]
        for _ in range(20):
            try:
                entry = self.units[stage.name].begin(plan, planner.broadcast_values_of(plan), unit)
            except RoundError:
                while lane.to_commit:
                    self.commit(stage)
                continue
            lane.to_begin.popleft()
            lane.to_commit.append(entry)
            if self.chance.random() < 0.02:
                self._give_up(stage, unit)
            return
        raise AssertionError("a round fails for ever")

    def _give_up(self, stage: Stage, unit: int) -> None:
        """Spark takes the worker for dead; it commits what it has stepped in a unit much later, as another one does."""
        zombie = StageWorker(stage, self.states[stage.name], self.log)
        zombie._saved = dict(self.units[stage.name]._saved)
        self.zombies += [(zombie, each) for each in self.lanes[stage.name].to_commit if each.unit == unit]

    def commit(self, stage: Stage) -> None:
        """Commit the rounds of one or more units, in order."""
        lane = self.lanes[stage.name]
        rounds = [lane.to_commit.popleft()]
        while lane.to_commit and lane.to_commit[0].unit not in {each.unit for each in rounds}:
            if self.chance.random() < 0.5:
                break
            rounds.append(lane.to_commit.popleft())
        self.units[stage.name].commit(rounds)

    def finish(self) -> None:
        """Go on until nothing comes any more, and the units have been idle for long."""
        for _ in range(60):
            self.turn()

    def results(self, until: float = math.inf) -> dict[int, Counter[str]]:
        """All lines of the result topic, as they are there, by incarnation; of rounds up to one."""
        lines_by_incarnation: dict[int, Counter[str]] = defaultdict(Counter)
        for message in (message for unit in self.log.topics[JOB.results] for message in unit):
            lines = (json.dumps(json.loads(line), sort_keys=True) for line in bytes(message.value).splitlines())
            stamp = Stamp.decode(message.headers[HEADER])
            if stamp.round <= until:
                lines_by_incarnation[stamp.incarnation].update(lines)
        return lines_by_incarnation


def run(faults: list[tuple[str, int]], seed: int = 0) -> Simulation:
    folder = Path(tempfile.mkdtemp())
    try:
        simulation = Simulation(folder, seed)
        for fault, after in faults:
            if fault == "die":
                simulation.log.calls_until_death = after
            try:
                for _ in range(1 + after % 5):
                    simulation.turn()
            except KilledError:
                simulation.start()
            simulation.log.calls_until_death = None
            if fault.startswith("save"):
                simulation.save()
            if fault in ("lose state", "save, cut, lose"):
                shutil.rmtree(folder / "job", ignore_errors=True)
                simulation.start()
            elif fault == "lose checkpoint":
                simulation.committed.clear()
                simulation.start()
            elif fault == "second driver":
                _fence_off(simulation)
            elif fault == "rewind":
                if after % 2:
                    simulation.rewind()
                else:
                    simulation.keep()
            elif fault == "partition":
                simulation.grow()
            elif fault == "poison":
                simulation.poison(after % PARTITIONS)
        simulation.finish()
        return simulation
    finally:
        shutil.rmtree(folder)


def _fence_off(simulation: Simulation) -> None:
    """A driver takes over while the first one lives: that one plans nothing more, and its worker does no harm.

    The worker commits what it has stepped, late, some of it never.
    """
    zombie, units, lanes = simulation.planners, simulation.units, simulation.lanes
    simulation.start()
    for stage in simulation.stages:
        simulation.zombies += [(units[stage.name], stepped) for stepped in lanes[stage.name].to_commit]
        last = simulation.committed.get(stage.name)
        if last is not None:
            try:
                zombie[stage.name].after(zombie[stage.name].open_rounds(last)[-1])
            except FencedError:
                continue


CLEAN = run([]).results()[1]


def test_a_run_without_faults_counts_every_row_once() -> None:
    """The sum of the grouped counts is the number of rows."""
    assert sum(json.loads(line)["rows"] * times for line, times in CLEAN.items()) == len(ROWS)
    assert set(CLEAN.values()) == {1}


@given(FAULTS, st.integers(0, 1 << 16))
@settings(max_examples=examples(60), deadline=None)
def test_no_result_is_lost_or_doubled_whatever_dies(faults: list[tuple[str, int]], seed: int) -> None:
    """Workers and drivers that die at any call, lost states, cut logs, no checkpoint, a second driver, going back.

    After a rewind results are emitted again, as those of another incarnation.
    """
    lines_by_incarnation = run(faults, seed).results()
    assert all(times == 1 for lines in lines_by_incarnation.values() for times in lines.values())
    assert set().union(*lines_by_incarnation.values()) == set(CLEAN)
    if "rewind" not in {fault for fault, _ in faults}:
        assert lines_by_incarnation[1] == CLEAN


@given(
    FAULTS,
    st.lists(st.tuples(st.just("poison"), st.integers(0, 9)), min_size=1, max_size=3),
    st.randoms(),
    st.integers(0, 1 << 16),
)
@settings(max_examples=examples(20), deadline=None)
def test_a_message_that_no_round_gets_over_is_put_aside_once_and_nothing_else(
    faults: list[tuple[str, int]], poisons: list[tuple[str, int]], chance: random.Random, seed: int
) -> None:
    """Whatever dies while that is found out, decided, or done: the results are those of a run without it."""
    faults = [fault for fault in faults if fault[0] != "rewind"]
    for poison in poisons:
        faults.insert(chance.randrange(len(faults) + 1), poison)
    simulation = run(faults, seed)
    assert simulation.results() == {1: CLEAN}
    assert simulation.put_aside() == simulation.poisoned


@given(FAULTS, st.integers(0, 5), st.integers(1, 2), st.integers(0, 1 << 16))
@settings(max_examples=examples(20), deadline=None)
def test_each_row_of_a_partition_that_is_added_is_counted_once_or_reported_as_late(
    faults: list[tuple[str, int]], at: int, partitions: int, seed: int
) -> None:
    """Whatever dies before, meanwhile or after; and so is each row of the others."""
    faults = [fault for fault in faults if fault[0] != "rewind"]
    simulation = run([*faults[:at], *[("partition", 0)] * partitions, *faults[at:]], seed)
    counted_lines = simulation.results()[1]
    assert set(counted_lines.values()) == {1}
    assert sum(json.loads(line)["rows"] for line in counted_lines) + simulation.late() == simulation.rows


@pytest.mark.parametrize("turns", [0, 1, 4, 9])
def test_a_rewind_emits_again_what_came_after_the_savepoint(tmp_path: Path, turns: int) -> None:
    """Exactly that, as results of the next incarnation; without a savepoint, all."""
    simulation = Simulation(tmp_path)
    for _ in range(turns):
        simulation.turn()
    simulation.keep()
    saved = simulation.savepoint["reduce"].round_id[1] if simulation.savepoint else 0
    before = simulation.results(saved).get(1, Counter())
    simulation.finish()
    simulation.rewind()
    simulation.finish()
    assert simulation.results() == {1: CLEAN, 2: CLEAN - before}


def test_going_back_is_refused_where_the_source_has_forgotten(tmp_path: Path) -> None:
    """Nothing has changed then: the job goes on where it was."""
    simulation = Simulation(tmp_path)
    for _ in range(3):
        simulation.turn()
    simulation.keep()
    for _ in range(3):
        simulation.turn()
    simulation.end_rounds()
    simulation.log.truncate(JOB.topic)
    with pytest.raises(MessagesLostError, match=r"rows\[0\]: the savepoint resumes at offset \d+, but available are"):
        simulation.rewind()
    simulation.start()
    assert simulation.planners["map"].begin().incarnation == 1


def test_a_job_that_never_ran_has_nothing_to_go_back_from(tmp_path: Path) -> None:
    """That does not start it either."""
    simulation = Simulation(tmp_path)
    with pytest.raises(NeverRanError, match=r"so it cannot be rewound; .* reset job"):
        simulation.rewind()
