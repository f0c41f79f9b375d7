"""Task loops: many rounds in one task, planned while it runs; the states are those of rounds run one by one."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from springline.persistence.errors import PersistenceError
from springline.persistence.monitoring.logs import JsonFormatter
from springline.spark_jobs.streaming.errors import MissingStateError, RoundError, UnknownTopicError
from springline.spark_jobs.streaming.runtime.driver import task_loop_driver
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.task_loop_driver import SaveRequest, TaskLoopDriver
from springline.spark_jobs.streaming.runtime.history import BroadcastValue, read_line
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.runtime.worker import checkpoints as checkpoints_module
from springline.spark_jobs.streaming.runtime.worker import task_loop
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointWriter
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop, run_task
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import KilledError, MemoryLog
from tests.support.streams.saved_states import SavedStates

MESSAGES = 12  # of each of two units, of which a round admits two


def adding(state: State, step_input: Input) -> Output:
    """Adds up its messages, each times the factor of the round."""
    factor = step_input.round.broadcast_values["settings"]["factor"]
    total = state.scalars.get("total", 0) + sum(int(bytes(message.value)) for message in step_input.messages) * factor
    return Output(State({"total": total}))


def make_adding() -> Step:
    """As a stage names it."""
    return adding


class Simulation:
    """A stage of two units, its log, and its planner."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage("add", f"{__name__}:make_adding", "numbers", 2, job="job", max_messages_per_round=2)
        self.states = StateFolders(folder)
        self.log = MemoryLog({"numbers": 2, self.stage.rounds: 1, self.stage.reports: 1})
        self.factor = 1
        for number, unit in itertools.product(range(MESSAGES), (0, 1)):
            self.log.put("numbers", unit, str(10 * number + unit).encode())
        self.clock = 0.0
        self.planner = Planner(self.stage, self.log, self.time, self.contents)

    def time(self) -> float:
        """Goes on with every look."""
        self.clock += 2.0
        return self.clock

    def contents(self) -> dict[str, BroadcastValue]:
        """What rounds name."""
        if self.factor == 0:
            raise UnknownTopicError("nobody knows the factor")
        return {"settings": BroadcastValue.of({"factor": self.factor})}

    def units(self) -> StageWorker:
        """As a worker without memory has them."""
        return StageWorker(self.stage, self.states, self.log)

    def totals(self) -> list[int]:
        """Of each unit, after the newest round."""
        versions = [self.states.store(unit) for unit in (0, 1)]
        return [each.load(*(each.newest() or (1, 0))).state.scalars.get("total", 0) for each in versions]

    def planned(self, rounds: int) -> TaskLoop:
        """A task loop whose rounds are all planned, and whose end is."""
        loop = self.begin_loop()
        plan = loop.rounds[0]
        for _ in range(rounds - 1):
            plan = self.next(plan)
        self.planner.end_task_loop()
        return loop

    def begin_loop(self) -> TaskLoop:
        """A task loop whose first round is planned."""
        first = self.next(self.planner.begin())
        return self.loop_from(first, self.planner.next_offset())

    def loop_from(self, first: RoundPlan, next_offset: int) -> TaskLoop:
        """A task loop that begins with a round, and follows the rounds log from that offset on."""
        named = self.planner.broadcast_values_of(first)
        return TaskLoop((first,), {first.broadcast_hashes[name]: value for name, value in named.items()}, next_offset)

    def log_with(self, follow: Any) -> MemoryLog:
        """The log, of which another function follows the rounds."""
        log = copy.copy(self.log)
        log.follow = lambda topic, *place: (follow if topic == self.stage.rounds else self.log.follow)(topic, *place)
        return log

    def await_round(self, round_id: tuple[int, int]) -> None:
        """Wait until a round is committed in both units."""
        until = time.monotonic() + 10
        while not all(self.states.store(unit).is_complete(*round_id) for unit in (0, 1)):
            assert time.monotonic() < until
            time.sleep(0.001)

    def next(self, plan: RoundPlan) -> RoundPlan:
        """The round after another."""
        next_plan = self.planner.after(plan)
        assert next_plan is not None
        return next_plan


@pytest.fixture
def simulation(tmp_path: Path) -> Simulation:
    """Nothing has run."""
    return Simulation(tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that follow a log in which nobody plans give up soon."""
    monkeypatch.setattr(task_loop, "_ALONE_SECONDS", 1.0)


SUMS = [sum(10 * number + unit for number in range(MESSAGES)) for unit in (0, 1)]


def test_a_task_runs_all_rounds_of_a_task_loop(simulation: Simulation) -> None:
    """In the units that it was given."""
    task_loop = simulation.planned(20)
    assert run_task(simulation.units(), simulation.log, task_loop, [0]) == 20
    assert simulation.totals() == [SUMS[0], 0]
    assert run_task(simulation.units(), simulation.log, task_loop, [1]) == 20
    assert simulation.totals() == SUMS


@pytest.mark.parametrize("value", [b"", b"hello", b"\xff", b"7", b'{"round":1}', b'{"of":[1]}', b"{}", b"[" * 100_000])
def test_what_somebody_else_writes_to_the_rounds_log_is_passed_over(simulation: Simulation, value: bytes) -> None:
    """By the tasks of a task loop, and by the next driver, which goes on with the round after the last."""
    simulation.log.put(simulation.stage.rounds, 0, value)
    plan = simulation.next(simulation.planner.begin())
    simulation.log.put(simulation.stage.rounds, 0, value)
    task_loop = simulation.planned(20)
    simulation.log.put(simulation.stage.rounds, 0, value)
    assert task_loop.rounds[0].round_id == plan.round_id
    assert run_task(simulation.units(), simulation.log, task_loop, [0, 1]) == 20
    assert simulation.totals() == SUMS
    assert Planner(simulation.stage, simulation.log, simulation.time, simulation.contents).begin().number == 20


def test_a_task_loop_of_one_round_ends_with_it(simulation: Simulation) -> None:
    """Whatever the log says."""
    task_loop = replace(simulation.planned(3), next_offset=None)
    assert run_task(simulation.units(), simulation.log, task_loop, [0, 1]) == 1


@pytest.mark.parametrize("calls", range(2, 60, 3))
def test_an_attempt_after_another_goes_on_where_that_died(simulation: Simulation, calls: int) -> None:
    """At any call of the log."""
    task_loop = simulation.planned(20)
    simulation.log.calls_until_death = calls
    with suppress(KilledError):
        run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    simulation.log.calls_until_death = None
    run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    assert simulation.totals() == SUMS


def test_a_task_loop_goes_on_though_its_log_lags(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that read that round once more would conclude that it was replaced, and end."""
    extents = simulation.log.offset_bounds

    def late(topic: str) -> dict[int, OffsetBounds]:
        return {unit: OffsetBounds(each.low, max(each.high - 4, each.low)) for unit, each in extents(topic).items()}

    first = simulation.next(simulation.planner.begin())
    monkeypatch.setattr(simulation.log, "offset_bounds", late)
    follows = simulation.planner.next_offset()
    monkeypatch.undo()
    plan = first
    for _ in range(19):
        plan = simulation.next(plan)
    simulation.planner.end_task_loop()
    assert run_task(simulation.units(), simulation.log, simulation.loop_from(first, follows), [0, 1]) == 20


def test_an_abandoned_task_ends_when_it_wakes(simulation: Simulation) -> None:
    """It was stopped after its first round; another attempt has gone on, and has more to do."""
    task_loop = simulation.planned(20)
    follow, others = simulation.log.follow, 0

    def fetch(topic: str, unit: int, start: int, seconds: float) -> list[Message]:
        lines = follow(topic, unit, start, seconds)
        return [*lines[:5], lines[-1]]

    def stopped(topic: str, unit: int, start: int, seconds: float) -> list[Message]:
        nonlocal others
        simulation.await_round((1, 1))
        others = others or run_task(simulation.units(), simulation.log_with(fetch), task_loop, [0, 1])
        return follow(topic, unit, start, seconds)

    assert run_task(simulation.units(), simulation.log_with(stopped), task_loop, [0, 1]) == 1
    assert others == 5
    assert simulation.states.store(0).newest() == (1, 6)


def test_what_rounds_name_may_change_within_a_task_loop(simulation: Simulation) -> None:
    """The log has the new content before the first round that names it."""
    task_loop = simulation.begin_loop()
    simulation.factor = 100
    simulation.next(task_loop.rounds[0])
    simulation.planner.end_task_loop()
    run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    assert simulation.totals()[0] > 0 and simulation.totals()[0] % 100 == 0  # the first round had only a 0


def test_what_rounds_named_long_ago_may_be_named_again_within_a_task_loop(simulation: Simulation) -> None:
    """The task of the task loop does not have it: it is sent once more."""
    plan = simulation.next(simulation.planner.begin())
    simulation.factor = 3
    task_loop = simulation.loop_from(simulation.next(plan), simulation.planner.next_offset())
    simulation.factor = 1
    simulation.next(task_loop.rounds[0])
    simulation.planner.end_task_loop()
    messages = simulation.log.fetch(simulation.stage.rounds, 0, task_loop.next_offset or 0, 1 << 40)
    lines = [read_line(message) for message in messages]
    assert [line.value for line in lines if isinstance(line, BroadcastValue)] == [{"factor": 1}]


@pytest.mark.parametrize(("messages", "seconds", "expected"), [(0, 8_000, 8_110.0), (1, 1_000, 4_100.0)])
def test_a_clock_that_was_ahead_slows_down(tmp_path: Path, messages: int, seconds: int, expected: float) -> None:
    """It never goes back, and a stage goes on having rounds, whether there are messages or not."""
    stage = Stage("add", f"{__name__}:make_adding", "numbers", job="job")
    log = MemoryLog({"numbers": 1, stage.rounds: 1, stage.reports: 1})
    times = [100.0, 110.0, 3_600.0, 3_600.5, *(111.0 + second for second in range(seconds))]
    now = iter(times)
    planner = Planner(stage, log, lambda: next(now), dict)
    plan, clocks = planner.begin(), []
    for _ in times:
        for _ in range(messages):
            log.put("numbers", 0, b"1")
        if (next_plan := planner.after(plan)) is not None:
            plan = next_plan
            clocks.append(plan.clock)
    assert clocks[:3] == [100.0, 110.0, 3_600.0] and clocks == sorted(clocks)
    assert all(later - earlier <= 2.0 for earlier, later in itertools.pairwise(clocks[2:]))
    assert plan.clock == pytest.approx(expected, abs=2.0)


def test_a_planner_remembers_no_more_than_what_its_last_three_rounds_name(simulation: Simulation) -> None:
    """Otherwise it would hold every version of a content that changes all the time."""
    plans = [simulation.planner.begin()]
    for simulation.factor in range(1, 6):
        plans.append(simulation.next(plans[-1]))
    broadcast_values = [simulation.planner.broadcast_values_of(plan)["settings"] for plan in plans[-3:]]
    assert broadcast_values == [{"factor": 3}, {"factor": 4}, {"factor": 5}]
    with pytest.raises(MissingStateError):
        simulation.planner.broadcast_values_of(plans[-4])


def test_a_task_loop_goes_on_over_rounds_that_were_cut_from_the_log(simulation: Simulation) -> None:
    """They are cut when no unit needs them: their states are persisted."""
    task_loop = simulation.planned(6)
    run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    before = simulation.totals()
    simulation.log.truncate(simulation.stage.rounds)
    last = simulation.planner.begin()
    simulation.next(last)
    simulation.planner.end_task_loop()
    assert run_task(simulation.units(), simulation.log, task_loop, [0, 1]) == 1
    assert simulation.totals() != before


def test_no_task_follows_for_ever_when_the_planner_is_gone(simulation: Simulation) -> None:
    """A round is planned every second, so silence says so."""
    assert run_task(simulation.units(), simulation.log, simulation.begin_loop(), [0, 1]) == 1


def test_another_driver_ends_the_task_loop_of_the_one_before(simulation: Simulation) -> None:
    """Its tasks end, though no driver that planned for them lives."""
    task_loop = simulation.begin_loop()
    other = Planner(simulation.stage, simulation.log, simulation.time, simulation.contents)
    other.after(other.begin())
    assert run_task(simulation.units(), simulation.log, task_loop, [0, 1]) == 1


# ---- planning meanwhile


@pytest.fixture
def paused() -> list[bool]:
    """Whether nothing is to be planned."""
    return [False]


@pytest.fixture
def request_() -> list[SaveRequest | None]:
    """What is to be saved."""
    return [None]


@pytest.fixture
def planning(
    simulation: Simulation, paused: list[bool], request_: list[SaveRequest | None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[TaskLoopDriver]:
    """Task loops of a minute; a busy machine is given its time."""
    monkeypatch.setattr(task_loop, "_ALONE_SECONDS", 60.0)
    driver = TaskLoopDriver(simulation.planner, lambda: paused[0], 60.0, lambda: request_[0])
    yield driver
    paused[0] = True
    driver.first(0)


def run_meanwhile(simulation: Simulation, planning: TaskLoopDriver, paused: list[bool]) -> RoundId:
    """Run a task loop until all messages are added up and nothing is to be planned; returns its first round."""
    first = planning.first(20.0)
    assert first is not None
    task_loop = planning.begin(first)
    assert planning.begin(first) is task_loop  # asked again
    follow = simulation.log.follow

    def ending(*position: object) -> list[object]:
        paused[0] = simulation.totals() == SUMS
        return list(follow(*position))

    assert run_task(simulation.units(), simulation.log_with(ending), task_loop, [0, 1]) >= MESSAGES // 2
    assert simulation.totals() == SUMS
    return first.first.round_id


def test_rounds_are_planned_meanwhile(simulation: Simulation, planning: TaskLoopDriver, paused: list[bool]) -> None:
    """Each when all units have done the one before; the task loop ends when nothing is to be planned any more."""
    first = run_meanwhile(simulation, planning, paused)
    paused[0] = False
    following = planning.first(20.0)
    assert following is not None and following.first.round_id > first


def test_a_task_loop_in_which_a_task_did_not_run_is_followed_by_short_ones(
    simulation: Simulation, planning: TaskLoopDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too few places for all tasks at once they take turns: for four rounds, and for eight the next time."""
    monkeypatch.setattr(task_loop_driver, "_STALLED_SECONDS", 0.5)
    for rounds in (4, 8):
        first = planning.first(20.0)
        assert first is not None
        task_loop = planning.begin(first)
        assert task_loop.next_offset is not None
        run_task(simulation.units(), simulation.log, task_loop, [0])  # until the planner says that it is over
        assert planning.first(20.0) == first
        for _ in range(rounds):
            following = planning.first(20.0)
            assert following is not None
            short = planning.begin(following)
            assert short.next_offset is None
            run_task(simulation.units(), simulation.log, short, [0, 1])


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_stage_waits_for_upstream(
    simulation: Simulation,
    planning: TaskLoopDriver,
    paused: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    has_ended: bool,
) -> None:
    """It asks for offsets when that stage has reported a round, or when it waited for long; not all the time, and not
    after a task loop has ended either.
    """
    reports = "job.before.reports"
    simulation.log.topics[reports] = [[]]
    simulation.planner._stage = replace(simulation.stage, upstream_reports=(reports,))
    if has_ended:
        run_meanwhile(simulation, planning, paused)
        assert planning.first(0) is None
        paused[0] = False
    else:
        run_task(simulation.units(), simulation.log, simulation.planned(MESSAGES), [0, 1])  # all that there is
    asked: list[str] = []
    bounds = simulation.log.offset_bounds

    def counted(topic: str) -> object:
        asked.append(topic)
        return bounds(topic)

    def waiting(topic: str, unit: int, start: int, seconds: float) -> list[Message]:
        time.sleep(seconds)
        return list(simulation.log.fetch(topic, unit, start, bounds(topic)[unit].high))

    monkeypatch.setattr(simulation.planner, "_now", lambda: 0.0)  # so that no round is due for its clock
    monkeypatch.setattr(simulation.log, "offset_bounds", counted)
    monkeypatch.setattr(simulation.log, "follow", waiting)
    assert planning.first(0.5) is None
    assert asked.count("numbers") <= 8  # 100 with a look each 5 ms
    simulation.log.put("numbers", 0, b"1")
    simulation.log.put(reports, 0, b"of a round")
    assert planning.first(20.0) is not None


@pytest.mark.parametrize("lost", [(0,), (0, 1)])
def test_a_task_recovers_the_states_that_were_lost_before_it(simulation: Simulation, lost: tuple[int, ...]) -> None:
    """Of units that have reported rounds: those are replayed, and the open ones run."""
    task_loop = simulation.planned(20)
    run_task(simulation.units(), simulation.log, replace(task_loop, next_offset=None), [0, 1])
    for unit in lost:
        shutil.rmtree(simulation.states.folder(unit))
    run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    assert simulation.totals() == SUMS
    reports = StageReports(simulation.stage, simulation.log)
    reports.catch_up()
    assert {unit for unit, report in reports.newest.items() if report.state.recovered} == set(lost)


def test_an_error_of_planning_is_raised_at_the_next_task_loop(simulation: Simulation, planning: TaskLoopDriver) -> None:
    """The tasks are let go before."""
    first = planning.first(20.0)
    assert first is not None
    simulation.factor = 0
    task_loop = planning.begin(first)
    assert run_task(simulation.units(), simulation.log, task_loop, [0, 1]) == 1
    with pytest.raises(UnknownTopicError, match="nobody knows"):
        planning.first(20.0)


def test_a_failed_round_is_logged_with_unit_and_round(simulation: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    """And raised, as Spark tries it again."""
    simulation.log.put("numbers", 0, b"no number")
    task_loop = simulation.planned(20)
    formatted = JsonFormatter()
    events: list[dict[str, object]] = []
    caplog.handler.addFilter(lambda record: events.append(json.loads(formatted.format(record))) or True)
    with caplog.at_level(logging.ERROR, "springline.unit"), pytest.raises(RoundError, match="no number"):
        run_task(simulation.units(), simulation.log, task_loop, [0])
    (line,) = events
    assert (line["job"], line["stage"], line["unit"], line["level"]) == ("job", "add", 0, "error")
    assert str(line["message"]).startswith(f"job.add[0]: round {line['round']} failed: ")


def test_leftovers_of_a_killed_worker_are_removed_before_a_unit_goes_on(simulation: Simulation) -> None:
    """Once in a worker: its own files are never half written when it begins."""
    task_loop = simulation.planned(2)
    folder = simulation.states.folder(0)
    folder.mkdir(parents=True)
    (half := folder / f".{'0f' * 16}").write_bytes(b"half")
    run_task(simulation.units(), simulation.log, task_loop, [0, 1])
    assert not half.exists()


# ---- states that are saved


def test_states_are_saved_at_intervals_while_rounds_go_on(simulation: Simulation) -> None:
    """Each once its round is reported; what fails is part of the next report, and ends nothing."""
    simulation.stage = replace(simulation.stage, checkpoint_interval=1e-9)
    storage, worker = SavedStates(), simulation.units()
    failing = [True]

    class Storage(SavedStates):
        def save(self, stage: Stage, unit: int, store: StateStore, round_id: tuple[int, int]) -> None:
            reported = worker.reported_round(unit)
            assert reported is not None and reported >= round_id and worker.retained[unit] == round_id
            if failing[0]:
                raise PersistenceError("the under-store is away")
            storage.save(stage, unit, store, round_id)

    checkpoints = CheckpointWriter(worker, Storage())
    task_loop = simulation.planned(20)
    reports = StageReports(simulation.stage, simulation.log)
    handed_out = [task_loop.rounds[0].round_id]

    def following(*place: Any) -> Sequence[Message]:
        simulation.await_round(handed_out[0])
        checkpoints.wait()
        reports.catch_up()
        if failing[0] and any(report.state.checkpoint_error for report in reports.newest.values()):
            (error,) = {report.state.checkpoint_error.partition(":")[2] for report in reports.newest.values()} - {""}
            assert error == " the under-store is away"
            failing[0] = False
        messages = simulation.log.follow(*place)[:1]
        handed_out.extend(line.round_id for line in map(read_line, messages) if isinstance(line, RoundPlan))
        del handed_out[:-1]
        return messages

    run_task(worker, simulation.log_with(following), task_loop, [0, 1], checkpoints=checkpoints)
    checkpoints.wait()
    reports.catch_up()
    assert simulation.totals() == SUMS and not worker.retained and not failing[0]
    assert set(storage.newest) == {("add", 0), ("add", 1)}
    assert all(report.state.checkpoint_error == "" for report in reports.newest.values())


def test_a_state_is_saved_again_once_its_unit_has_come_further_or_after_long(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds without messages are replayed in a moment; a savepoint has each state that it asks for."""
    simulation.stage = replace(simulation.stage, checkpoint_interval=1e-3)
    worker, saved = simulation.units(), list[tuple[int, int]]()
    storage = SimpleNamespace(save=lambda stage, unit, store, round_id: saved.append((unit, round_id[1])))
    checkpoints = CheckpointWriter(worker, storage)
    plan = simulation.planner.begin()

    def run(*values: bytes) -> None:
        nonlocal plan
        for value in values:
            simulation.log.put("numbers", 1, value)
        plan = simulation.next(plan)
        for unit in (0, 1):
            worker.run(plan, simulation.planner.broadcast_values_of(plan), unit)
        checkpoints.wait()
        time.sleep(0.002)
        checkpoints.save_if_due([0, 1])
        checkpoints.wait()

    monkeypatch.setattr(checkpoints_module, "_UNCHANGED_INTERVALS", 1e9)
    run()
    while plan.messages:
        assert saved[-2:] == [(0, plan.number), (1, plan.number)]
        run()
    saved.clear()
    run()
    assert saved == []
    run(b"5")
    assert saved == [(1, plan.number)]
    run()
    checkpoints.save([0, 1], plan.round_id)
    assert saved == [(1, plan.number - 1), (0, plan.number), (1, plan.number)]
    monkeypatch.setattr(checkpoints_module, "_UNCHANGED_INTERVALS", 0)
    run()
    assert saved[3:] == [(0, plan.number), (1, plan.number)]


def test_a_state_that_is_being_saved_is_not_pruned(simulation: Simulation) -> None:
    """However many rounds run meanwhile."""
    worker = simulation.units()
    worker.retained[0] = (1, 2)
    simulation.log = simulation.log_with(simulation.log.follow)
    run_task(worker, simulation.log, simulation.planned(20), [0, 1])
    assert worker.states.store(0).is_complete(1, 2) and not worker.states.store(1).is_complete(1, 2)


def test_a_task_loop_that_saves_states_ends_the_one_before_and_repeats_its_last_round(
    simulation: Simulation, planning: TaskLoopDriver, request_: list[SaveRequest | None]
) -> None:
    """Those that are asked for, once; then rounds go on, from where they were."""
    storage, worker = SavedStates(), simulation.units()
    checkpoints = CheckpointWriter(worker, storage)
    first = planning.first(20.0)
    assert first is not None

    def following(*place: Any) -> Sequence[Message]:
        if simulation.totals()[0] > 60:
            request_[0] = SaveRequest((1, 3))
        return simulation.log.follow(*place)

    run_task(worker, simulation.log_with(following), planning.begin(first), [0, 1])
    saving = planning.first(20.0)
    assert saving is not None and saving.save == (1, 3) and saving.first.round_id > (1, 3)
    task_loop = planning.begin(saving)
    assert planning.begin(saving) is task_loop and task_loop.next_offset is None and task_loop.rounds == (saving.first,)
    before = simulation.totals()
    assert run_task(worker, simulation.log, task_loop, [0, 1], checkpoints=checkpoints) == 0
    assert simulation.totals() == before
    assert {round_id for round_id, _ in storage.newest.values()} == {(1, 3)}
    going_on = planning.first(20.0)
    assert going_on is not None and going_on.save is None
    assert going_on.first.previous_round_id == saving.first.round_id


def test_the_newest_states_are_saved_before_the_end(
    simulation: Simulation, planning: TaskLoopDriver, paused: list[bool], request_: list[SaveRequest | None]
) -> None:
    """Though nothing is planned any more; and nothing is saved before the first round."""
    request_[0] = SaveRequest()
    paused[0] = True
    assert planning.first(0.0) is None
    paused[0], request_[0] = False, None
    first = planning.first(20.0)
    assert first is not None
    run_task(simulation.units(), simulation.log, replace(planning.begin(first), next_offset=None), [0, 1])
    request_[0], paused[0] = SaveRequest(), True
    saving = planning.first(20.0)
    assert saving is not None and saving.save == saving.first.round_id
    planning.begin(saving)
    assert planning.first(0.0) is None
