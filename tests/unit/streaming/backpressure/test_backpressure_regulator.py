"""Who regulates a job: what comes of a slow stage, of another mode, of a death, of a channel that is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from springline.spark_jobs.streaming.backpressure.admission import Mode
from springline.spark_jobs.streaming.backpressure.channel import Channel, InMemory
from springline.spark_jobs.streaming.backpressure.config import Choice, Control, choice_of, choose
from springline.spark_jobs.streaming.backpressure.rate_limit import Rates
from springline.spark_jobs.streaming.backpressure.regulator import Regulator
from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.unit.streaming.backpressure.test_backpressure_counting import ROUND, Stages


class World:
    """A relay in which `count` falls behind, its folder, and who regulates it; a look every 50 ms."""

    def __init__(self, folder: Path, declared: Choice) -> None:
        self.stages = Stages(folder / "states")
        self.folder = JobFolder(folder / "job")
        self.folder.path.mkdir()
        self.opened: list[Control] = []
        self.declared = declared
        self.at = 1_000.0
        self.sent = self.applied = 10
        self.regulator = self.regulate()

    def regulate(self) -> Regulator:
        """One without memory."""
        stages = tuple(self.stages.stages.values())
        return Regulator(self.declared, self.folder, stages, 2, self._channel)

    def go(self, seconds: float, *, behind: bool) -> dict[str, Any]:
        """Rounds of a tenth of a second, of which `count` ends every fourth one where it falls behind."""
        told: dict[str, Any] = {}
        for look in range(round(seconds / 0.05)):
            if look % 2:
                self.sent += 1
                self.stages.both("take", self.sent, 0.01)
                self.stages.both("parse", self.sent, 0.01)
                if not behind:
                    self.applied = self.sent
                elif look % 8 == 7:
                    self.applied += 1
                self.stages.both("count", self.applied, 0.2 if behind else 0.05)
                self.stages.both("keep", self.sent, 0.01)
            self.at += 0.05
            told = self.regulator.look(self.at)
        return told

    def rate(self, stage: str, later: float = 0.0) -> float | None:
        """What a planner finds."""
        found = Rates(Path(self.stages.stages["take"].state)).of(stage, self.at + later)
        return None if found is None else found.rate

    def _channel(self, control: Control) -> Channel:
        self.opened.append(control)
        return InMemory()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With signals over Kafka."""
    return World(tmp_path, Choice(Mode.PREDICTIVE))


@pytest.mark.parametrize("mode", [Mode.PREDICTIVE, Mode.STEPWISE, Mode.STEPWISE_LITERAL])
def test_a_stage_that_falls_behind_throttles_its_upstream(tmp_path: Path, mode: Mode) -> None:
    """And tells so; without back-pressure nothing is granted to anybody."""
    world = World(tmp_path, Choice(mode))
    assert all(stage["rate"] is None for stage in world.go(2.0, behind=False)["stages"].values())
    told = world.go(8.0, behind=True)["stages"]
    assert told["count"]["state"] == "overloaded" and told["parse"]["state"] == "throttled"
    assert [each["downstream"] for each in told["parse"]["throttled_by"]] == ["count"]
    assert told["count"]["queue"] == 2 * ROUND * (world.sent - world.applied)
    rate = world.rate("parse")
    assert rate is not None and rate == pytest.approx(told["parse"]["rate"], rel=0.02)


def test_off_grants_nothing_and_opens_no_channel(tmp_path: Path) -> None:
    """Queues are measured all the same."""
    world = World(tmp_path, Choice(Mode.OFF))
    told = world.go(8.0, behind=True)["stages"]
    assert told["count"]["queue"] > 0 and told["count"]["capacity"] > 0
    assert world.rate("parse") is None and world.opened == []


def test_a_rate_is_renewed_while_somebody_regulates_and_ends_when_nobody_does(world: World) -> None:
    """Planners then admit ever more, in the end as much as without."""
    world.go(8.0, behind=True)
    granted = world.rate("parse")
    assert granted is not None
    assert world.rate("parse", later=1.0) == granted
    assert world.rate("parse", later=60.0) is None


def test_one_that_is_started_again_goes_on(world: World) -> None:
    """It throttles at its second look, with what was measured before."""
    before = world.go(8.0, behind=True)["stages"]
    world.regulator = world.regulate()
    after = world.go(0.1, behind=True)["stages"]
    assert after["count"]["capacity"] == pytest.approx(before["count"]["capacity"], rel=0.5)
    assert after["parse"]["throttled_by"][0]["since"] == before["parse"]["throttled_by"][0]["since"]


def test_another_mode_holds_from_the_next_look(world: World) -> None:
    """And off frees all at once."""
    world.go(8.0, behind=True)
    choose(world.folder, world.declared, Mode.OFF)
    told = world.go(0.05, behind=True)
    assert told["mode"] == "off" and all(stage["rate"] is None for stage in told["stages"].values())
    assert world.rate("parse") is None
    choose(world.folder, world.declared, Mode.STEPWISE, Control.ZOOKEEPER)
    assert world.go(0.05, behind=True)["control"] == "zookeeper"
    assert world.opened == [Control.KAFKA, Control.ZOOKEEPER]


def test_what_was_chosen_holds_instead_of_what_is_declared(world: World) -> None:
    """A choice of one leaves the other."""
    assert choice_of(world.folder, world.declared) == world.declared
    choose(world.folder, world.declared, control=Control.ZOOKEEPER)
    assert choose(world.folder, world.declared, Mode.STEPWISE) == Choice(Mode.STEPWISE, Control.ZOOKEEPER)


def test_all_are_free_again_when_nobody_falls_behind(world: World) -> None:
    """Within seconds."""
    world.go(8.0, behind=True)
    told = world.go(12.0, behind=False)["stages"]
    assert {stage["state"] for stage in told.values()} == {"level"}
    assert world.rate("parse") is None
