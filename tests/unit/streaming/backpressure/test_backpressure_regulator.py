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


class Simulation:
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
        self.polls: list[dict[str, Any]] = []  # how each found the stages
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
            self.polls.append(status["stages"])
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
def simulation(tmp_path: Path) -> Simulation:
    """In one application, in the usual mode."""
    return Simulation(tmp_path, BackpressureConfig())


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_falls_behind_throttles_its_upstream(tmp_path: Path, mode: str) -> None:
    """And reports so; within one application no channel is opened, whatever `signal_channel` says."""
    simulation = Simulation(tmp_path, BackpressureConfig(mode, ChannelKind.ZOOKEEPER))
    assert all(stage["rate"] is None for stage in simulation.go(2.0, lagging=False)["stages"].values())
    status = simulation.go(8.0, lagging=True)
    assert simulation.opened == [] and status["signal_channel"] is None
    stages = status["stages"]
    assert stages["count"]["state"] == "overloaded" and stages["parse"]["state"] == "throttled"
    assert [each["downstream"] for each in stages["parse"]["throttled_by"]] == ["count"]
    assert stages["count"]["queue"] == 2 * ROUND * (simulation.sent - simulation.applied)
    rate = simulation.rate("parse")
    assert rate is not None and rate == pytest.approx(stages["parse"]["rate"], rel=0.02)


@pytest.mark.parametrize("mode", ["predictive", "stepwise"])
def test_a_stage_has_credit_while_there_is_room_in_the_queues_after_it(tmp_path: Path, mode: str) -> None:
    """None is left before the queue is twice what it may be; it comes back as the queue is worked off."""
    simulation = Simulation(tmp_path, BackpressureConfig(mode))
    simulation.go(2.0, lagging=False)
    free = simulation.credit("parse")
    assert free is not None and free.bytes > 0 and free.after_round == simulation.sent
    assert simulation.credit("take") is not None and simulation.credit("count") is None  # which has no stage after it
    while (credit := simulation.credit("parse")) is not None and credit.bytes > 0:
        simulation.go(0.4, lagging=True)
    assert simulation.polls[-1]["count"]["queue"] < 20e6
    simulation.applied = simulation.sent
    simulation.go(0.4, lagging=False)
    credit = simulation.credit("parse")
    assert credit is not None and credit.bytes > 0


@pytest.mark.parametrize("apart", [(), ("count",)])
def test_off_grants_nothing_and_opens_no_channel(tmp_path: Path, apart: tuple[str, ...]) -> None:
    """Queues are measured all the same, those of stages apart too."""
    simulation = Simulation(tmp_path, BackpressureConfig("off"), apart)
    stages = simulation.regulator.with_other_stages(simulation.go(8.0, lagging=True))["stages"]
    assert stages["count"]["queue"] > 0 and stages["count"]["capacity"] > 0
    assert simulation.rate("parse") is None and simulation.opened == []


def test_a_rate_is_renewed_while_a_regulator_runs_and_ends_when_none_does(simulation: Simulation) -> None:
    """Planners then admit ever more, in the end as much as without."""
    simulation.go(8.0, lagging=True)
    rate = simulation.rate("parse")
    assert rate is not None
    assert simulation.rate("parse", later=1.0) == rate
    assert simulation.rate("parse", later=60.0) is None


def test_one_that_is_started_again_goes_on(simulation: Simulation) -> None:
    """It throttles at its second look, with what was measured before."""
    before = simulation.go(8.0, lagging=True)["stages"]
    simulation.regulator = simulation.regulate()
    after = simulation.go(0.1, lagging=True)["stages"]
    assert after["count"]["capacity"] == pytest.approx(before["count"]["capacity"], rel=0.5)
    assert after["parse"]["throttled_by"][0]["since"] == before["parse"]["throttled_by"][0]["since"]


def test_another_mode_holds_from_the_next_look(simulation: Simulation) -> None:
    """And off frees all at once."""
    simulation.go(8.0, lagging=True)
    update_config(simulation.folder, simulation.declared, "off")
    status = simulation.go(0.05, lagging=True)
    assert status["mode"] == "off" and all(stage["rate"] is None for stage in status["stages"].values())
    assert simulation.rate("parse") is None
    update_config(simulation.folder, simulation.declared, "stepwise")
    assert simulation.go(0.05, lagging=True)["mode"] == "stepwise"


def test_what_was_chosen_holds_instead_of_what_is_declared(simulation: Simulation) -> None:
    """A choice of one leaves the other."""
    assert read_config(simulation.folder, simulation.declared) == simulation.declared
    update_config(simulation.folder, simulation.declared, signal_channel=ChannelKind.ZOOKEEPER)
    new_config = update_config(simulation.folder, simulation.declared, "stepwise")
    assert new_config == BackpressureConfig("stepwise", ChannelKind.ZOOKEEPER)


def test_all_are_free_again_when_no_stage_falls_behind(simulation: Simulation) -> None:
    """Within seconds."""
    simulation.go(8.0, lagging=True)
    stages = simulation.go(12.0, lagging=False)["stages"]
    assert {stage["state"] for stage in stages.values()} == {"normal"}
    assert simulation.rate("parse") is None


# ---- in one application, and in two


def test_a_signal_is_obeyed_within_the_look_in_which_it_is_sent(tmp_path: Path) -> None:
    """From the last stage to the first: no look lies between what is asked and what is obeyed."""
    simulation = Simulation(tmp_path, BackpressureConfig("stepwise"))
    simulation.go(8.0, lagging=True)
    levels = set()
    for stages in simulation.polls:
        requested_levels = [each["throttle_level"] for each in stages["count"]["throttles"]]
        assert [each["throttle_level"] for each in stages["parse"]["throttled_by"]] == requested_levels
        levels.update(requested_levels)
    assert len(levels) > 3


@pytest.mark.parametrize("mode", MODES)
def test_stages_apart_throttle_those_of_the_other_application_over_a_channel(tmp_path: Path, mode: str) -> None:
    """Each application opens its end, for those of its stages that the other one asks, and grants rates to its own."""
    simulation = Simulation(tmp_path, BackpressureConfig(mode, ChannelKind.ZOOKEEPER), apart=("count", "keep"))
    status = simulation.regulator.with_other_stages(simulation.go(8.0, lagging=True))
    assert sorted(simulation.opened) == [(ChannelKind.ZOOKEEPER, ()), (ChannelKind.ZOOKEEPER, ("parse",))]
    assert status["signal_channel"] == "zookeeper" and list(status["stages"]) == ["take", "parse", "count", "keep"]
    assert status["stages"]["count"]["state"] == "overloaded" and status["stages"]["parse"]["state"] == "throttled"
    assert simulation.rate("parse") is not None


def test_another_channel_holds_from_the_next_look(tmp_path: Path) -> None:
    """At both ends; the one before is closed."""
    simulation = Simulation(tmp_path, BackpressureConfig(), apart=("count", "keep"))
    simulation.go(0.1, lagging=False)
    update_config(simulation.folder, simulation.declared, signal_channel=ChannelKind.ZOOKEEPER)
    assert not simulation.pipe.closed
    simulation.go(0.1, lagging=False)
    assert simulation.pipe.closed and [control for control, _ in simulation.opened] == ["kafka"] * 2 + ["zookeeper"] * 2


def test_the_error_of_the_other_end_is_reported_while_that_one_lives(tmp_path: Path) -> None:
    """With how its stages are; what it reported before it died is not true any more."""
    simulation = Simulation(tmp_path, BackpressureConfig(), apart=("count",))
    simulation.pipe.last_error = "no broker"
    simulation.go(2.0, lagging=False)
    simulation.pipe.last_error = ""
    status = simulation.regulator.regulate(simulation.at)
    assert simulation.regulator.last_error == "no broker"
    assert "count" in simulation.regulator.with_other_stages(status)["stages"]
    simulation.other = None
    status = simulation.go(6.0, lagging=False)
    assert simulation.regulator.last_error == ""
    assert "count" not in simulation.regulator.with_other_stages(status)["stages"]


def test_a_mode_that_is_not_installed_any_more_is_reported(simulation: Simulation) -> None:
    """Nothing is granted by another one in its stead."""
    write_json(
        simulation.folder.path / "backpressure.json", {"form": 1, "value": {"mode": "gone", "signal_channel": "kafka"}}
    )
    with pytest.raises(ExtensionError, match=r"mode of back-pressure 'gone'.*; installed: off, predictive, stepwise; "):
        simulation.regulator.regulate(simulation.at)
