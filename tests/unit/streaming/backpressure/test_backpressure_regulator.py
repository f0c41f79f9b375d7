"""Who regulates a job: what comes of a slow stage, of another mode, of a death, of stages in another application."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from springline.persistence.errors import ExtensionError
from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import (
    BackpressureConfig,
    ChannelKind,
    read_config,
    update_config,
)
from springline.spark_jobs.streaming.backpressure.rate_limit import Credit, GrantReader
from springline.spark_jobs.streaming.backpressure.regulator import Regulator
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from tests.support.streams.channel_suite import Pipe
from tests.unit.streaming.backpressure.test_backpressure_counting import ROUND, Stages

MODES = ("predictive", "stepwise", "stepwise-literal")


class World:
    """A relay in which `count` falls behind, its folder, and who regulates it; a look every 50 ms.

    The stages `apart` are regulated by another application, which looks first.
    """

    def __init__(self, folder: Path, declared: BackpressureConfig, apart: Sequence[str] = ()) -> None:
        self.stages = Stages(folder / "states")
        self.folder = JobFolder(folder / "job")
        self.folder.path.mkdir()
        self.opened: list[tuple[ChannelKind, tuple[str, ...]]] = []
        self.pipe = Pipe()
        self.apart = apart
        self.looks: list[dict[str, Any]] = []  # how each found the stages
        self.declared = declared
        self.at = 1_000.0
        self.sent = self.applied = 10
        self.regulator = self.regulate()
        self.other = self.regulate(apart=True) if apart else None

    def regulate(self, *, apart: bool = False) -> Regulator:
        """One without memory."""
        stages = [
            replace(stage, in_second_application=name in self.apart) for name, stage in self.stages.stages.items()
        ]
        return Regulator(self.declared, self.folder, stages, 2, self._channel, self.stages, apart=apart)

    def go(self, seconds: float, *, lagging: bool) -> dict[str, Any]:
        """Rounds of a tenth of a second, of which `count` ends every fourth one where it falls behind."""
        status: dict[str, Any] = {}
        for tick in range(round(seconds / 0.05)):
            if tick % 2:
                self.sent += 1
                self.stages.both("take", self.sent, 0.01)
                self.stages.both("parse", self.sent, 0.01)
                if not lagging:
                    self.applied = self.sent
                elif tick % 8 == 7:
                    self.applied += 1
                self.stages.both("count", self.applied, 0.2 if lagging else 0.05)
                self.stages.both("keep", self.sent, 0.01)
            self.at += 0.05
            if self.other is not None:
                self.other.regulate(self.at)
            status = self.regulator.regulate(self.at)
            self.looks.append(status["stages"])
        return status

    def rate(self, stage: str, later: float = 0.0) -> float | None:
        """What a planner finds."""
        grant = GrantReader(self.folder.path, stage).limit(self.at + later)
        return None if grant is None else grant.rate

    def credit(self, stage: str) -> Credit | None:
        """What a planner may still admit."""
        grant = GrantReader(self.folder.path, stage).limit(self.at)
        return None if grant is None else grant.credit

    def _channel(self, control: ChannelKind, stages: Collection[str]) -> Channel:
        self.opened.append((control, tuple(stages)))
        return self.pipe


@pytest.fixture
def world(tmp_path: Path) -> World:
    """In one application, in the usual mode."""
    return World(tmp_path, BackpressureConfig())


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_falls_behind_throttles_its_upstream(tmp_path: Path, mode: str) -> None:
    """And tells so; within one application no channel is opened, whatever `signal_channel` says."""
    world = World(tmp_path, BackpressureConfig(mode, ChannelKind.ZOOKEEPER))
    assert all(stage["rate"] is None for stage in world.go(2.0, lagging=False)["stages"].values())
    status = world.go(8.0, lagging=True)
    assert world.opened == [] and status["signal_channel"] is None
    stages = status["stages"]
    assert stages["count"]["state"] == "overloaded" and stages["parse"]["state"] == "throttled"
    assert [each["downstream"] for each in stages["parse"]["throttled_by"]] == ["count"]
    assert stages["count"]["queue"] == 2 * ROUND * (world.sent - world.applied)
    rate = world.rate("parse")
    assert rate is not None and rate == pytest.approx(stages["parse"]["rate"], rel=0.02)


@pytest.mark.parametrize("mode", ["predictive", "stepwise"])
def test_a_stage_has_credit_while_there_is_room_in_the_queues_after_it(tmp_path: Path, mode: str) -> None:
    """None is left before the queue is twice what it may be; it comes back as the queue is worked off."""
    world = World(tmp_path, BackpressureConfig(mode))
    world.go(2.0, lagging=False)
    free = world.credit("parse")
    assert free is not None and free.bytes > 0 and free.after_round == world.sent
    assert world.credit("take") is not None and world.credit("count") is None  # which has nobody after it
    while (credit := world.credit("parse")) is not None and credit.bytes > 0:
        world.go(0.4, lagging=True)
    assert world.looks[-1]["count"]["queue"] < 20e6
    world.applied = world.sent
    world.go(0.4, lagging=False)
    credit = world.credit("parse")
    assert credit is not None and credit.bytes > 0


def test_off_grants_nothing_and_opens_no_channel(tmp_path: Path) -> None:
    """Queues are measured all the same."""
    world = World(tmp_path, BackpressureConfig("off"))
    stages = world.go(8.0, lagging=True)["stages"]
    assert stages["count"]["queue"] > 0 and stages["count"]["capacity"] > 0
    assert world.rate("parse") is None and world.opened == []


def test_a_rate_is_renewed_while_somebody_regulates_and_ends_when_nobody_does(world: World) -> None:
    """Planners then admit ever more, in the end as much as without."""
    world.go(8.0, lagging=True)
    rate = world.rate("parse")
    assert rate is not None
    assert world.rate("parse", later=1.0) == rate
    assert world.rate("parse", later=60.0) is None


def test_one_that_is_started_again_goes_on(world: World) -> None:
    """It throttles at its second look, with what was measured before."""
    before = world.go(8.0, lagging=True)["stages"]
    world.regulator = world.regulate()
    after = world.go(0.1, lagging=True)["stages"]
    assert after["count"]["capacity"] == pytest.approx(before["count"]["capacity"], rel=0.5)
    assert after["parse"]["throttled_by"][0]["since"] == before["parse"]["throttled_by"][0]["since"]


def test_another_mode_holds_from_the_next_look(world: World) -> None:
    """And off frees all at once."""
    world.go(8.0, lagging=True)
    update_config(world.folder, world.declared, "off")
    status = world.go(0.05, lagging=True)
    assert status["mode"] == "off" and all(stage["rate"] is None for stage in status["stages"].values())
    assert world.rate("parse") is None
    update_config(world.folder, world.declared, "stepwise")
    assert world.go(0.05, lagging=True)["mode"] == "stepwise"


def test_what_was_chosen_holds_instead_of_what_is_declared(world: World) -> None:
    """A choice of one leaves the other."""
    assert read_config(world.folder, world.declared) == world.declared
    update_config(world.folder, world.declared, signal_channel=ChannelKind.ZOOKEEPER)
    assert update_config(world.folder, world.declared, "stepwise") == BackpressureConfig(
        "stepwise", ChannelKind.ZOOKEEPER
    )


def test_all_are_free_again_when_nobody_falls_behind(world: World) -> None:
    """Within seconds."""
    world.go(8.0, lagging=True)
    stages = world.go(12.0, lagging=False)["stages"]
    assert {stage["state"] for stage in stages.values()} == {"normal"}
    assert world.rate("parse") is None


# ---- in one application, and in two


def test_a_signal_is_obeyed_within_the_look_in_which_it_is_sent(tmp_path: Path) -> None:
    """From the last stage to the first: no look lies between what is asked and what is obeyed."""
    world = World(tmp_path, BackpressureConfig("stepwise"))
    world.go(8.0, lagging=True)
    levels = set()
    for stages in world.looks:
        requested_levels = [each["throttle_level"] for each in stages["count"]["throttles"]]
        assert [each["throttle_level"] for each in stages["parse"]["throttled_by"]] == requested_levels
        levels.update(requested_levels)
    assert len(levels) > 3


@pytest.mark.parametrize("mode", MODES)
def test_stages_apart_throttle_those_of_the_other_application_over_a_channel(tmp_path: Path, mode: str) -> None:
    """Each application opens its end, for those of its stages that the other one asks, and grants rates to its own."""
    world = World(tmp_path, BackpressureConfig(mode, ChannelKind.ZOOKEEPER), apart=("count", "keep"))
    status = world.regulator.with_other_stages(world.go(8.0, lagging=True))
    assert sorted(world.opened) == [(ChannelKind.ZOOKEEPER, ()), (ChannelKind.ZOOKEEPER, ("parse",))]
    assert status["signal_channel"] == "zookeeper" and list(status["stages"]) == ["take", "parse", "count", "keep"]
    assert status["stages"]["count"]["state"] == "overloaded" and status["stages"]["parse"]["state"] == "throttled"
    assert world.rate("parse") is not None


def test_another_channel_holds_from_the_next_look(tmp_path: Path) -> None:
    """At both ends; the one before is closed."""
    world = World(tmp_path, BackpressureConfig(), apart=("count", "keep"))
    world.go(0.1, lagging=False)
    update_config(world.folder, world.declared, signal_channel=ChannelKind.ZOOKEEPER)
    assert not world.pipe.closed
    world.go(0.1, lagging=False)
    assert world.pipe.closed and [control for control, _ in world.opened] == ["kafka"] * 2 + ["zookeeper"] * 2


def test_off_opens_no_channel_to_stages_apart(tmp_path: Path) -> None:
    """They are only measured."""
    world = World(tmp_path, BackpressureConfig("off"), apart=("count",))
    world.go(1.0, lagging=True)
    assert world.opened == []


def test_what_is_wrong_at_the_other_end_is_told_while_that_one_lives(tmp_path: Path) -> None:
    """With how its stages are; what it told before it died is not true any more."""
    world = World(tmp_path, BackpressureConfig(), apart=("count",))
    world.pipe.last_error = "no broker"
    world.go(2.0, lagging=False)
    world.pipe.last_error = ""
    status = world.regulator.regulate(world.at)
    assert world.regulator.last_error == "no broker" and "count" in world.regulator.with_other_stages(status)["stages"]
    world.other = None
    status = world.go(6.0, lagging=False)
    assert world.regulator.last_error == "" and "count" not in world.regulator.with_other_stages(status)["stages"]


def test_a_mode_that_is_not_installed_any_more_is_told(world: World) -> None:
    """Nothing is granted by another one in its stead."""
    write_json(
        world.folder.path / "backpressure.json", {"form": 1, "value": {"mode": "gone", "signal_channel": "kafka"}}
    )
    with pytest.raises(ExtensionError, match=r"mode of back-pressure 'gone'.*; installed: off, predictive, stepwise; "):
        world.regulator.regulate(world.at)
