"""Topics that change while a job remembers their offsets: partitions are added, topics are recreated, logs are lost."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import LogLostError, MessagesLostError, TopicReplacedError
from springline.spark_jobs.streaming.runtime.driver.lives import assign_lives, check_checkpoints_planned
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.savepoints import BEGINNING, Savepoint, rewind
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.runtime.topic_union import union_name
from springline.spark_jobs.streaming.runtime.worker.recovery import RecoveredState
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import MemoryLog
from tests.support.streams.next_task_loop import begin_next_task_loop
from tests.support.streams.saved_states import SavedStates, packed_savepoint


def adding_up(state: State, step_input: Input) -> Output:
    """Adds up its messages, by partition."""
    sums = Counter(state.scalars)
    for message in step_input.messages:
        sums[str(message.partition)] += int(bytes(message.value))
    return Output(State(dict(sums)))


def make_adding_up() -> Step:
    """As a stage names it."""
    return adding_up


class Simulation:
    """A stage whose topic may change, as a driver and workers without memory see it at every run."""

    def __init__(
        self, folder: Path, topic: str = "numbers", partitions: int = 1, units: int = 1, numbers: int = 3
    ) -> None:
        self.stage = Stage("add", f"{__name__}:make_adding_up", topic, units, job="job", max_messages_per_round=2)
        self.states = StateFolders(folder / "states")
        self.storage = SavedStates()
        names = topic.split("+")
        self.clock = 0.0
        self.empty(*names, partitions=partitions, numbers=numbers)

    def empty(self, *names: str, partitions: int = 1, numbers: int) -> None:
        """Recreate all topics; each partition of the input gets so many numbers."""
        self.log = MemoryLog({**dict.fromkeys(names, partitions), self.stage.rounds: 1, self.stage.reports: 1})
        for name, partition in itertools.product(names, range(partitions)):
            self.put(name, partition, *range(1, numbers + 1))

    def put(self, topic: str, partition: int, *numbers: int) -> None:
        """Messages."""
        for number in numbers:
            self.log.put(topic, partition, str(number).encode())

    def time(self) -> float:
        """Goes on with every look."""
        self.clock += 2.0
        return self.clock

    def planner(self) -> Planner:
        """A new one."""
        return Planner(self.stage, self.log, self.time, dict)

    def run(self, rounds: int, *, last_units: int = 9) -> RoundPlan:
        """Run so many rounds, the last one in so many units."""
        planner, units = self.planner(), StageWorker(self.stage, self.states, self.log)
        plan = planner.begin()
        for number in range(rounds):
            next_plan = planner.after(plan)
            assert next_plan is not None
            plan = next_plan
            for unit in range(plan.units)[: last_units if number == rounds - 1 else None]:
                units.run(plan, {}, unit)
        return plan

    def begin_next_task_loop(self) -> list[RecoveredState]:
        """What tasks do first."""
        return begin_next_task_loop(self.stage, self.states, self.log, self.storage)

    def save(self) -> None:
        """Save the newest state of each unit elsewhere."""
        for unit in range(self.stage.units):
            if (newest := self.states.store(unit).newest()) is not None:
                self.storage.save(self.stage, unit, self.states.store(unit), newest)

    def check(self) -> None:
        """What an application does first."""
        check_checkpoints_planned(self.stage, self.log, self.storage.round_id)

    def savepoint(self) -> Savepoint:
        """Of the states after the newest round."""
        savepoint = packed_savepoint([self.stage], {self.stage.name: self.states}, self.log)
        assert savepoint is not None
        return savepoint

    def rewind(self, savepoint: Savepoint) -> None:
        """Go back to it; tasks restore what it holds."""
        rewind([self.stage], self.log, savepoint, self.clock, self.storage.save_packed)

    def sums(self) -> dict[int, int]:
        """Of each partition, after the newest round of its unit."""
        stores = [self.states.store(unit) for unit in range(self.stage.units)]
        states = [each.load(*newest).state for each in stores if (newest := each.newest())]
        return {int(partition): total for state in states for partition, total in sorted(state.scalars.items())}


@pytest.fixture
def simulation(tmp_path: Path) -> Simulation:
    """A topic of one partition, with three messages."""
    return Simulation(tmp_path)


# ---- partitions that are added


@pytest.mark.parametrize("units", [1, 2, 3])
def test_a_partition_that_is_added_begins_with_its_first_message(tmp_path: Path, units: int) -> None:
    """In the round after it came; the unit that reads it reads others, or had none so far."""
    simulation = Simulation(tmp_path, units=units)
    simulation.run(2)
    simulation.put("numbers", simulation.log.add_partition("numbers"), 10, 20)
    assert simulation.run(1).ranges[1][0] == 0
    simulation.put("numbers", simulation.log.add_partition("numbers"), 100)
    simulation.run(4)
    assert simulation.sums() == {0: 6, 1: 30, 2: 100}


def test_a_job_that_is_killed_in_the_first_round_of_a_partition_goes_on(simulation: Simulation) -> None:
    """The round has its messages, as it was planned."""
    simulation.run(2)
    simulation.put("numbers", simulation.log.add_partition("numbers"), 10, 20)
    simulation.run(1, last_units=0)
    simulation.begin_next_task_loop()
    simulation.run(3)
    assert simulation.sums() == {0: 6, 1: 30}


def test_a_lost_state_is_rebuilt_also_from_the_rounds_before_a_partition_came(simulation: Simulation) -> None:
    """They have less to read."""
    simulation.run(2)
    simulation.put("numbers", simulation.log.add_partition("numbers"), 10, 20, 30)
    simulation.run(4)
    before = simulation.sums()
    shutil.rmtree(simulation.states.memory)
    (recovery,) = simulation.begin_next_task_loop()
    assert (recovery.unit, recovery.base, recovery.rounds) == (0, (1, 0), 6)
    assert simulation.sums() == before and before[1] > 10


def test_a_partition_that_came_after_a_savepoint_is_read_again_after_a_rewind_to_it(simulation: Simulation) -> None:
    """The savepoint has no offset of it."""
    simulation.run(1)
    savepoint = simulation.savepoint()
    simulation.put("numbers", simulation.log.add_partition("numbers"), 10, 20)
    simulation.run(2)
    simulation.rewind(savepoint)
    simulation.begin_next_task_loop()
    simulation.run(5)
    assert simulation.sums() == {0: 6, 1: 30}


@pytest.mark.parametrize("topic", ["a", "b"])
def test_either_topic_of_a_sum_may_get_another_partition(tmp_path: Path, topic: str) -> None:
    """The partitions of the other one keep their numbers, and so their offsets."""
    simulation = Simulation(tmp_path, union_name(["a", "b"]))
    simulation.run(1)
    simulation.put(topic, simulation.log.add_partition(topic), 10, 20)
    simulation.run(6)
    assert sorted(simulation.sums().values()) == [6, 6, 30]


# ---- topics that are recreated


def test_a_topic_that_is_recreated_is_noticed_however_long_it_is(simulation: Simulation) -> None:
    """Its rows would be skipped up to the offset that is remembered, and no state may be rebuilt from others."""
    simulation.run(2)
    simulation.log.recreate_topic("numbers")
    simulation.put("numbers", 0, *range(100, 120))
    expected = (
        r"numbers was deleted and recreated after round 2: .*`springline stream rewind job` .*"
        r"`springline stream reset job`"
    )
    with pytest.raises(TopicReplacedError, match=expected):
        simulation.run(1)
    shutil.rmtree(simulation.states.memory)
    with pytest.raises(TopicReplacedError, match="reset job"):
        simulation.begin_next_task_loop()


def test_a_savepoint_of_a_topic_that_was_recreated_is_refused_and_its_beginning_is_not(simulation: Simulation) -> None:
    """Nothing has changed by the first; after the second, all that is there now is read."""
    simulation.run(2)
    savepoint = simulation.savepoint()
    simulation.log.recreate_topic("numbers")
    simulation.put("numbers", 0, 100, 200, 300, 400)
    with pytest.raises(TopicReplacedError, match="numbers was deleted and recreated since"):
        simulation.rewind(savepoint)
    simulation.rewind(BEGINNING)
    simulation.begin_next_task_loop()
    simulation.run(6)
    assert simulation.sums() == {0: 1000}


def test_a_job_that_is_to_read_another_topic_than_before_is_refused(simulation: Simulation) -> None:
    """Offsets of one are not those of the other."""
    simulation.run(1)
    simulation.log.topics["others"] = [[]]
    simulation.stage = Stage("add", f"{__name__}:make_adding_up", "others", job="job")
    with pytest.raises(MessagesLostError, match="round 1 read the topic numbers, but the job now reads others"):
        simulation.run(1)


# ---- logs that are lost: Kafka was emptied, or its topics were recreated


@pytest.fixture
def two_units(tmp_path: Path) -> Simulation:
    """A topic of two partitions, with 24 messages each."""
    return Simulation(tmp_path, partitions=2, units=2, numbers=24)


def test_a_job_that_never_ran_and_one_that_was_killed_in_a_round_are_as_they_should_be(two_units: Simulation) -> None:
    """No state is newer than what is planned."""
    two_units.check()
    two_units.run(3, last_units=1)
    two_units.save()
    two_units.check()
    assert two_units.begin_next_task_loop() == []
    two_units.save()
    two_units.check()


@pytest.mark.parametrize(
    ("persisted", "expected"), [((1, 5), ["5+0", "5+0"]), ((1, 4), ["4+1", "4+1"]), ((1, 2), ["2+3"] * 2)]
)
def test_each_lost_state_is_named(two_units: Simulation, persisted: tuple[int, int], expected: list[str]) -> None:
    """Also where the persisted one is so new that no round is replayed."""
    two_units.run(5)
    for unit in range(2):
        two_units.storage.save(two_units.stage, unit, two_units.states.store(unit), persisted)
        shutil.rmtree(two_units.states.folder(unit))
    recoveries = two_units.begin_next_task_loop()
    assert [f"{each.base[1]}+{each.rounds}" for each in recoveries] == expected


def test_states_of_a_kafka_that_was_emptied_are_an_error_that_says_what_helps(two_units: Simulation) -> None:
    """Otherwise no round would ever be run: those that are planned come before those of the states."""
    two_units.run(5)
    two_units.save()
    two_units.empty("numbers", partitions=2, numbers=24)
    expected = (
        r"job\.add\.rounds is empty, and there is a state after round 5 of incarnation 1, of job\.add\[0\]: "
        r"Kafka was emptied.*`springline stream reset job`"
    )
    with pytest.raises(LogLostError, match=expected):
        two_units.check()
    assert two_units.planner().begin().number == 0


def test_so_are_states_that_are_newer_than_a_rounds_log_that_was_recreated(two_units: Simulation) -> None:
    """Also where they were only saved."""
    two_units.run(2)
    expected = r"ends with round 2 of incarnation 1, and .* after round 7 .* of job\.add\[1\]"
    with pytest.raises(LogLostError, match=expected):
        check_checkpoints_planned(two_units.stage, two_units.log, lambda stage, unit: (1, 7) if unit else None)
    check_checkpoints_planned(two_units.stage, two_units.log, lambda stage, unit: (1, 2))


def test_a_rounds_log_that_was_recreated_is_an_error_though_no_state_was_saved(two_units: Simulation) -> None:
    """Its states are elsewhere, so its id says it; the first start has none to compare."""
    (stage,) = assign_lives([two_units.stage], two_units.log, {})
    two_units.run(2)
    assert assign_lives([two_units.stage], two_units.log, {stage.name: stage.life}) == (stage,)
    two_units.log.recreate_topic(two_units.stage.rounds)
    with pytest.raises(LogLostError, match=r"job\.add\.rounds is another topic than before: Kafka was emptied"):
        assign_lives([two_units.stage], two_units.log, {stage.name: stage.life})


def test_a_round_that_is_being_committed_is_awaited(two_units: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """By opening the rounds log: the log of a broker that was just started may end before it."""
    two_units.run(2)
    two_units.save()
    offset_bounds, appender = two_units.log.offset_bounds, two_units.log.appender

    def short(topic: str) -> object:
        return offset_bounds(topic) if topic != two_units.stage.rounds else {0: type(offset_bounds(topic)[0])(0, 1)}

    def opening(writer: str, topic: str) -> object:
        monkeypatch.setattr(two_units.log, "offset_bounds", offset_bounds)
        return appender(writer, topic)

    monkeypatch.setattr(two_units.log, "offset_bounds", short)
    monkeypatch.setattr(two_units.log, "appender", opening)
    two_units.check()
    assert two_units.log.offset_bounds == offset_bounds


def test_an_input_that_was_recreated_is_an_error_that_says_what_helps(two_units: Simulation) -> None:
    """Its rounds log is still there, and goes on behind the end of the topic."""
    two_units.run(4)
    two_units.save()
    own = {topic: two_units.log.topics[topic] for topic in (two_units.stage.rounds, two_units.stage.reports)}
    ends = {topic: two_units.log.offset_bounds(topic)[0].high for topic in own}
    before = two_units.log.offset_bounds("numbers")[0].high
    two_units.empty("numbers", partitions=2, numbers=3)
    for topic, messages in own.items():
        two_units.log.topics[topic] = messages
        two_units.log._log_end_offsets[topic, 0] = ends[topic]
    high = two_units.log.offset_bounds("numbers")[0].high
    assert high < before
    two_units.check()
    planner = two_units.planner()
    expected = (
        rf"numbers\[0\]: round 5 resumes at offset \d+, but available are 0 to {high}; "
        r"`springline stream rewind job` .*`springline stream reset job`"
    )
    with pytest.raises(MessagesLostError, match=expected):
        planner.after(planner.begin())


def test_a_round_whose_messages_are_gone_says_what_helps_too(two_units: Simulation) -> None:
    """Where it is run again after the job was killed."""
    two_units.run(4, last_units=1)
    two_units.log.truncate("numbers")
    with pytest.raises(MessagesLostError, match=r"numbers\[1\]: messages .* no longer available; .*reset job"):
        two_units.begin_next_task_loop()
