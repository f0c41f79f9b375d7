"""Topics that change while a job remembers their offsets: partitions are added, or they are made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import MessagesLostError, TopicReplacedError
from springline.spark_jobs.streaming.kafka.topic_union import union_name
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.savepoints import BEGINNING, Savepoint, rewind
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.runtime.worker.recovery import RecoveredState
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import MemoryLog
from tests.support.streams.next_shift import begin_next_shift
from tests.support.streams.saved_states import SavedStates, packed_savepoint


def adding_up(state: State, step_input: Input) -> Output:
    """Adds up its messages."""
    return Output(
        State({"sum": state.scalars.get("sum", 0) + sum(int(bytes(each.value)) for each in step_input.messages)})
    )


def make_adding_up() -> Step:
    """As a stage names it."""
    return adding_up


class World:
    """A stage whose topic may change, as a driver and workers without memory see it at every run."""

    def __init__(self, folder: Path, topic: str = "numbers", units: int = 1) -> None:
        self.stage = Stage("add", f"{__name__}:make_adding_up", topic, job="job", max_messages_per_round=1)
        self.states = StateFolders(folder / "states")
        self.storage = SavedStates()
        names = topic.split("+")
        self.log = MemoryLog({**dict.fromkeys(names, units), self.stage.rounds: 1, self.stage.reports: 1})
        self.clock = 0.0
        for name in names:
            self.put(name, 0, 1, 2, 3)

    def put(self, topic: str, unit: int, *numbers: int) -> None:
        """Messages."""
        for number in numbers:
            self.log.put(topic, unit, str(number).encode())

    def time(self) -> float:
        """Goes on with every look."""
        self.clock += 2.0
        return self.clock

    def planner(self, units: int | None = None) -> Planner:
        """A new one."""
        return Planner(self.stage, self.log, self.time, dict, units=units)

    def run(self, rounds: int, *, planner: Planner | None = None, kills: bool = False) -> RoundPlan:
        """Run so many rounds; with `kills`, the last one is planned, and nothing of it runs."""
        planner, units = planner or self.planner(), StageWorker(self.stage, self.states, self.log)
        plan = planner.begin()
        for number in range(rounds):
            next_plan = planner.after(plan)
            assert next_plan is not None
            plan = next_plan
            for unit in sorted(plan.ranges) if not kills or number < rounds - 1 else ():
                units.run(plan, {}, unit)
        return plan

    def begin_next_shift(self) -> list[RecoveredState]:
        """What tasks do first."""
        return begin_next_shift(self.stage, self.states, self.log, self.storage)

    def savepoint(self) -> Savepoint:
        """Of the states after the newest round."""
        savepoint = packed_savepoint([self.stage], {self.stage.name: self.states}, self.log)
        assert savepoint is not None
        return savepoint

    def rewind(self, savepoint: Savepoint) -> None:
        """Go back to it; tasks restore what it holds."""
        rewind([self.stage], self.log, savepoint, self.clock, self.storage.save_packed)

    def sums(self) -> dict[int, int]:
        """Of each unit, after its newest round."""
        stores = {unit: self.states.store(unit) for unit in self.log.offset_bounds(self.stage.topic)}
        states = {unit: each.load(*newest).state for unit, each in stores.items() if (newest := each.newest())}
        return {unit: state.scalars["sum"] for unit, state in states.items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A topic of one partition, with three messages."""
    return World(tmp_path)


# ---- partitions that are added


def test_a_partition_that_is_added_begins_with_an_empty_state(world: World) -> None:
    """With its first message, in the round after it came; from then on it is a unit like any other."""
    world.run(2)
    world.put("numbers", world.log.add_partition("numbers"), 10, 20)
    assert world.run(1).new_units == (1,)
    assert world.run(3).new_units == ()
    assert world.sums() == {0: 6, 1: 30}


def test_a_job_that_is_killed_in_the_first_round_of_a_new_unit_goes_on(world: World) -> None:
    """Its state is not there before that round, and need not be."""
    world.run(2)
    world.put("numbers", world.log.add_partition("numbers"), 10, 20)
    world.run(1, kills=True)
    world.begin_next_shift()
    world.run(3)
    assert world.sums() == {0: 6, 1: 30}


def test_the_lost_state_of_a_unit_that_came_later_is_brought_back_from_its_first_round_on(world: World) -> None:
    """No round before has it."""
    world.run(2)
    world.put("numbers", world.log.add_partition("numbers"), 10, 20, 30)
    world.run(4)
    before = world.sums()
    shutil.rmtree(world.states.memory)
    recoveries = world.begin_next_shift()
    assert {each.unit: (each.base, each.rounds) for each in recoveries} == {0: ((1, 0), 6), 1: ((1, 2), 4)}
    assert world.sums() == before and before[1] > 10


def test_a_unit_that_came_after_a_savepoint_begins_anew_after_going_back_to_it(world: World) -> None:
    """The savepoint has no state of it."""
    world.run(1)
    savepoint = world.savepoint()
    world.put("numbers", world.log.add_partition("numbers"), 10, 20)
    world.run(2)
    world.rewind(savepoint)
    world.begin_next_shift()
    world.run(5)
    assert world.sums() == {0: 6, 1: 30}


def test_a_planner_that_knows_of_one_unit_lets_another_one_wait(world: World) -> None:
    """What the application has made for its units is there when theirs begins."""
    planner = world.planner(units=1)
    world.run(1, planner=planner)
    world.put("numbers", world.log.add_partition("numbers"), 10)
    assert list(world.run(2, planner=planner).ranges) == [0]
    assert list(world.run(1).ranges) == [0, 1]


@pytest.mark.parametrize("topic", ["a", "b"])
def test_either_topic_of_a_sum_may_get_another_partition(tmp_path: Path, topic: str) -> None:
    """The units of the other one keep their numbers, and so their offsets."""
    world = World(tmp_path, union_name(["a", "b"]))
    world.run(1)
    world.put(topic, world.log.add_partition(topic), 10, 20)
    world.run(5)
    assert sorted(world.sums().values()) == [0, 6, 6, 30]


# ---- topics that are made anew


def test_a_topic_that_is_made_anew_is_noticed_however_long_it_is(world: World) -> None:
    """Its rows would be skipped up to the offset that is remembered; the error says what helps."""
    world.run(2)
    world.log.recreate_topic("numbers")
    world.put("numbers", 0, *range(100, 120))
    expected = (
        r"numbers was deleted and recreated after round 2: .*`springline stream rewind job` .*"
        r"`springline stream reset job`"
    )
    with pytest.raises(TopicReplacedError, match=expected):
        world.run(1)


def test_no_state_is_rebuilt_from_a_topic_that_was_made_anew(world: World) -> None:
    """Its messages at those offsets are others."""
    world.run(2)
    world.log.recreate_topic("numbers")
    world.put("numbers", 0, *range(100, 120))
    shutil.rmtree(world.states.memory)
    with pytest.raises(TopicReplacedError, match="reset job"):
        world.begin_next_shift()


def test_a_savepoint_of_a_topic_that_was_made_anew_is_refused_and_its_beginning_is_not(world: World) -> None:
    """Nothing has changed by the first; after the second, all that is there now is read."""
    world.run(2)
    savepoint = world.savepoint()
    world.log.recreate_topic("numbers")
    world.put("numbers", 0, 100, 200, 300, 400)
    with pytest.raises(TopicReplacedError, match="numbers was deleted and recreated since"):
        world.rewind(savepoint)
    world.rewind(BEGINNING)
    world.begin_next_shift()
    world.run(6)
    assert world.sums() == {0: 1000}


def test_a_job_that_is_to_read_another_topic_than_before_is_refused(world: World) -> None:
    """Offsets of one are not those of the other."""
    world.run(1)
    world.log.topics["others"] = [[]]
    world.stage = Stage("add", f"{__name__}:make_adding_up", "others", job="job")
    with pytest.raises(MessagesLostError, match="round 1 read the topic numbers, but the job now reads others"):
        world.run(1)
