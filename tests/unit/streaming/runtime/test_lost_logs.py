"""States whose log is not there any more: Kafka was emptied, or its topics were made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import LogLostError, MessagesLostError
from springline.spark_jobs.streaming.runtime.driver.lives import assign_lives, check_checkpoints_planned
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.runtime.worker.recovery import RecoveredState
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import MemoryLog
from tests.support.streams.next_shift import begin_next_shift
from tests.support.streams.saved_states import SavedStates

UNITS = 2


def counting(state: State, step_input: Input) -> Output:
    """Counts its messages."""
    return Output(State({"seen": state.scalars.get("seen", 0) + sum(1 for _ in step_input.messages)}))


def make_counting() -> Step:
    """As a stage names it."""
    return counting


class World:
    """A stage of two units, and a Kafka that can be emptied."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage("count", f"{__name__}:make_counting", "numbers", UNITS, job="job", max_messages_per_round=2)
        self.states = StateFolders(folder)
        self.storage = SavedStates()
        self.clock = 0.0
        self.empty()

    def empty(self, messages: int = 12) -> None:
        """All topics are made anew; the input gets so many messages a unit."""
        self.log = MemoryLog({"numbers": UNITS, self.stage.rounds: 1, self.stage.reports: 1})
        for number in range(messages * UNITS):
            self.log.put("numbers", number % UNITS, str(number).encode())

    def time(self) -> float:
        """Goes on with every look."""
        self.clock += 2.0
        return self.clock

    def planner(self) -> Planner:
        """As a driver without memory has it."""
        return Planner(self.stage, self.log, self.time, dict)

    def save(self) -> None:
        """Save the newest state of each unit elsewhere."""
        for unit in range(UNITS):
            if (newest := self.states.store(unit).newest()) is not None:
                self.storage.save(self.stage, unit, self.states.store(unit), newest)

    def check(self) -> None:
        """What an application does first."""
        check_checkpoints_planned(self.stage, self.log, self.storage.round_id)

    def begin_next_shift(self) -> list[RecoveredState]:
        """What tasks do first."""
        return begin_next_shift(self.stage, self.states, self.log, self.storage)

    def run(self, rounds: int, *, units: int = UNITS) -> None:
        """Run so many rounds, the last of them in so many units."""
        planner, runs = self.planner(), StageWorker(self.stage, self.states, self.log)
        plan = planner.begin()
        for number in range(rounds):
            next_plan = planner.after(plan)
            assert next_plan is not None
            plan = next_plan
            for unit in range(units if number == rounds - 1 else UNITS):
                runs.run(plan, {}, unit)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nothing has run."""
    return World(tmp_path)


def test_a_job_that_never_ran_and_one_that_was_killed_in_a_round_are_as_they_should_be(world: World) -> None:
    """No state is newer than what is planned."""
    world.check()
    world.run(3, units=1)
    world.save()
    world.check()
    assert world.begin_next_shift() == []
    world.save()
    world.check()


@pytest.mark.parametrize(
    ("persisted", "expected"), [((1, 5), ["5+0", "5+0"]), ((1, 4), ["4+1", "4+1"]), ((1, 2), ["2+3"] * 2)]
)
def test_each_state_that_was_lost_is_told(world: World, persisted: tuple[int, int], expected: list[str]) -> None:
    """Also where the persisted one is so new that no round is replayed."""
    world.run(5)
    for unit in range(UNITS):
        world.storage.save(world.stage, unit, world.states.store(unit), persisted)
        shutil.rmtree(world.states.folder(unit))
    recoveries = world.begin_next_shift()
    assert [f"{each.base[1]}+{each.rounds}" for each in recoveries] == expected


def test_states_of_a_kafka_that_was_emptied_are_an_error_that_says_what_helps(world: World) -> None:
    """Otherwise no round would ever be run: those that are planned come before those of the states."""
    world.run(5)
    world.save()
    world.empty()
    expected = (
        r"job\.count\.rounds is empty, and there is a state after round 5 of incarnation 1, of numbers\[0\]: "
        r"Kafka was emptied.*`springline stream reset job`"
    )
    with pytest.raises(LogLostError, match=expected):
        world.check()
    assert world.planner().begin().number == 0


def test_so_are_states_that_are_newer_than_a_rounds_log_that_was_begun_anew(world: World) -> None:
    """Also where they were only saved."""
    world.run(2)
    with pytest.raises(
        LogLostError, match=r"ends with round 2 of incarnation 1, and .* after round 7 .* of numbers\[1\]"
    ):
        check_checkpoints_planned(world.stage, world.log, lambda stage, unit: (1, 7) if unit else None)
    check_checkpoints_planned(world.stage, world.log, lambda stage, unit: (1, 2))


def test_a_rounds_log_that_was_made_anew_is_an_error_though_no_state_was_saved(world: World) -> None:
    """Its states are elsewhere, so its id says it; the first start has none to compare."""
    (stage,) = assign_lives([world.stage], world.log, {})
    world.run(2)
    assert assign_lives([world.stage], world.log, {stage.name: stage.life}) == (stage,)
    world.log.recreate_topic(world.stage.rounds)
    with pytest.raises(LogLostError, match=r"job\.count\.rounds is another topic than before: Kafka was emptied"):
        assign_lives([world.stage], world.log, {stage.name: stage.life})


def test_a_round_that_was_still_being_committed_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By opening the rounds log: the log of a broker that was just started may end before it."""
    world.run(2)
    world.save()
    offset_bounds, appender = world.log.offset_bounds, world.log.appender

    def short(topic: str) -> object:
        return offset_bounds(topic) if topic != world.stage.rounds else {0: type(offset_bounds(topic)[0])(0, 1)}

    def opening(writer: str, topic: str) -> object:
        monkeypatch.setattr(world.log, "offset_bounds", offset_bounds)
        return appender(writer, topic)

    monkeypatch.setattr(world.log, "offset_bounds", short)
    monkeypatch.setattr(world.log, "appender", opening)
    world.check()
    assert world.log.offset_bounds == offset_bounds


def test_an_input_that_was_made_anew_is_an_error_that_says_what_helps(world: World) -> None:
    """Its rounds log is still there, and goes on behind the end of the topic."""
    world.run(4)
    world.save()
    own = {topic: world.log.topics[topic] for topic in (world.stage.rounds, world.stage.reports)}
    ends = {topic: world.log.offset_bounds(topic)[0].high for topic in own}
    before = world.log.offset_bounds("numbers")[0].high
    world.empty(messages=3)
    for topic, messages in own.items():
        world.log.topics[topic] = messages
        world.log._log_end_offsets[topic, 0] = ends[topic]
    high = world.log.offset_bounds("numbers")[0].high
    assert high < before
    world.check()
    planner = world.planner()
    expected = (
        rf"numbers\[0\]: round 5 resumes at offset \d+, but available are 0 to {high}; "
        r"`springline stream rewind job` .*`springline stream reset job`"
    )
    with pytest.raises(MessagesLostError, match=expected):
        planner.after(planner.begin())


def test_a_round_whose_messages_are_gone_says_what_helps_too(world: World) -> None:
    """Where it is run again after the job was killed."""
    world.run(4, units=1)
    world.log.truncate("numbers")
    with pytest.raises(MessagesLostError, match=r"numbers\[1\]: messages .* no longer available; .*reset job"):
        world.begin_next_shift()
