"""Back-pressure over a channel that loses, doubles, delays and reorders, with controllers that die at any time.

Whatever rates a job is granted and whenever they end, each record counts once, also where processes die.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.backpressure.simulator import Simulation, Station
from benchmarks.backpressure.wire import Faults, Wire
from springline.spark_jobs.streaming.backpressure.accounting import StageAccounting
from springline.spark_jobs.streaming.backpressure.admission import (
    MINIMUM_RATE,
    Admission,
    AdmissionDecision,
    StageObservation,
    make_admission,
)
from springline.spark_jobs.streaming.backpressure.rate_limit import Credit, RateLimit, RateLimiter, write_grant
from springline.spark_jobs.streaming.backpressure.signals import LEASE_SECONDS, LONGEST_LEASE, Signal
from springline.spark_jobs.streaming.backpressure.stage_meter import StageMeasurement
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.wordcount.job import WordCountJob
from tests.support.examples import examples
from tests.support.streams.tracked_simulation import TrackedSimulation

ORIGINAL = 40e6
LATE = 5.0  # seconds, at most
SAFE = ("stepwise", "predictive")  # the literal form keeps none of this
RECOVERY = 100.0  # seconds, with the minute that a level may be held for
every_mode = pytest.mark.parametrize("mode", SAFE)
faults = st.builds(
    Faults, lost=st.floats(0, 0.9), doubled=st.floats(0, 0.5), late=st.floats(0, 0.9), late_seconds=st.just(LATE)
)
QUEUES = (0.0, 1e5, 1e6, 6e6, 5e7, 1e9)
RATES = (1e3, 1e5, 5e6, 25e6, 100e6)


def stands(at: float, queue: float, rate: float | None, inflow: float, amplification: float) -> StageMeasurement:
    """A stage whose queue stands."""
    flows, many = {"a": inflow}, {"c": amplification, "d": amplification}
    return StageMeasurement(at, queue, queue, queue, queue, rate, flows, min(inflow, rate or inflow), many)


class Stages:
    """a -> b -> (c, d): each with an admission, which may die, over a faulty wire; what they see is made up."""

    upstreams: Mapping[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("b",), "d": ("b",)}

    def __init__(self, mode: str, seed: int, faults: Faults) -> None:
        self.now = 1_000.0
        self._mode = mode
        self.wire = Wire(lambda: self.now, seed, faults)
        self.admissions: dict[str, Admission | None] = {name: make_admission(mode, name) for name in self.upstreams}
        self._states: dict[str, Any] = {}
        self.admitted: dict[str, AdmissionDecision] = {name: AdmissionDecision(None) for name in self.upstreams}

    def kill(self, name: str) -> None:
        """What it has in memory is gone; its state is what it wrote after its last decision."""
        admission = self.admissions[name]
        if admission is not None:
            self._states[name] = json.loads(json.dumps(admission.as_json()))
        self.admissions[name] = None

    def start(self, name: str, *, state: bool) -> None:
        """Another one, with the state that was written last, or without."""
        self.admissions[name] = make_admission(self._mode, name, self._states.get(name) if state else None)

    def decide(self, load: Mapping[str, tuple[float, float | None, float, float]]) -> None:
        """All decide once, 50 ms after the last time."""
        self.now += 0.05
        for name, admission in self.admissions.items():
            if admission is not None:
                signals = self.wire.receive(name)
                measurement = stands(self.now, *load[name])
                observation = StageObservation(measurement, ORIGINAL, self.upstreams[name], signals)
                self.admitted[name] = admission.decide(observation)
                self.wire.send(self.admitted[name].signals)


def calm() -> dict[str, tuple[float, float | None, float, float]]:
    """No overload: empty queues, and stages that can do more than comes."""
    return dict.fromkeys(Stages.upstreams, (0.0, 2 * ORIGINAL, ORIGINAL / 4, 1.0))


def wild(chance: random.Random) -> dict[str, tuple[float, float | None, float, float]]:
    """Anything."""
    return {
        name: (chance.choice(QUEUES), chance.choice([None, *RATES]), chance.choice(RATES), chance.choice([1e-9, 1, 50]))
        for name in Stages.upstreams
    }


@every_mode
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), faults)
def test_a_rate_is_never_below_its_minimum_nor_above_the_original(mode: str, seed: int, faults: Faults) -> None:
    """Whatever is seen, whatever becomes of signals, whoever dies."""
    chance, stages = random.Random(seed), Stages(mode, seed, faults)
    for _ in range(60):
        load = wild(chance)
        for _ in range(chance.randrange(1, 12)):
            stages.decide(load)
            for admitted in stages.admitted.values():
                assert admitted.rate is None or MINIMUM_RATE <= admitted.rate < ORIGINAL
        name = chance.choice(list(Stages.upstreams))
        stages.kill(name) if stages.admissions[name] else stages.start(name, state=chance.random() < 0.5)


@every_mode
@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 2**32), faults)
def test_without_overload_every_rate_returns_to_the_original(mode: str, seed: int, faults: Faults) -> None:
    """In bounded time, after anything; a controller that died for good throttles no stage."""
    chance, stages = random.Random(seed), Stages(mode, seed, faults)
    for _ in range(10):
        load = wild(chance)
        for _ in range(20):
            stages.decide(load)
    for name in ("c", "d"):
        if chance.random() < 0.5:
            stages.kill(name)
    for _ in range(int((RECOVERY + LATE + LONGEST_LEASE) / 0.05)):
        stages.decide(calm())
    assert {name: admitted.rate for name, admitted in stages.admitted.items()} == dict.fromkeys(Stages.upstreams)
    assert not any(admitted.throttled_by for admitted in stages.admitted.values())


@every_mode
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32))
def test_the_lowest_wins_and_a_release_frees_only_its_own(mode: str, seed: int) -> None:
    """In any order of arrival, with doubles; against the least of what the newest signals ask."""
    chance = random.Random(seed)
    stage = make_admission(mode, "b")
    newest_signals: dict[str, Signal] = {}
    was_throttled = False
    for number in range(1, 40):
        at = 1_000.0 + number * 0.01
        downstream = chance.choice("cde")
        level, rate = (chance.randrange(4) * 16, None) if mode == "stepwise" else (0, chance.choice([None, 1e6, 9e6]))
        signal = Signal(downstream, "b", number, at + LEASE_SECONDS, level, rate)
        old = list(newest_signals.values())
        newest_signals[downstream] = signal
        received = [signal, *chance.sample(old, chance.randrange(len(old) + 1))]
        chance.shuffle(received)
        admitted = stage.decide(StageObservation(stands(at, 0.0, ORIGINAL, 0.0, 1.0), ORIGINAL, (), received))
        throttling = {name for name, each in newest_signals.items() if not each.is_release}
        assert {each.downstream for each in admitted.throttled_by} == throttling
        assert (admitted.rate is None) == (not throttling)
        if mode == "predictive" and throttling:
            assert admitted.rate == min(newest_signals[name].rate or 0.0 for name in throttling)
        was_throttled = was_throttled or bool(throttling)
    assert was_throttled


@every_mode
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), faults)
def test_a_killed_downstream_lets_its_upstream_go_by_lease(mode: str, seed: int, faults: Faults) -> None:
    """While it is overloaded; and one that comes back throttles again."""
    stages = Stages(mode, seed, Faults(faults.lost / 2, faults.doubled, 0.0))
    overloaded = {**calm(), "c": (50e6, 1e6, ORIGINAL, 1.0)}
    for _ in range(200):
        stages.decide(overloaded)
    assert stages.admitted["b"].rate is not None
    stages.kill("c")
    for _ in range(int(RECOVERY / 0.05)):
        stages.decide(overloaded)
    assert stages.admitted["b"].rate is None
    stages.start("c", state=bool(seed % 2))
    for _ in range(200):
        stages.decide(overloaded)
    assert stages.admitted["b"].rate is not None


def small_simulation(mode: str, seed: int, faults: Faults, capacity: Any, seconds: float) -> Simulation:
    """spring -> split -> (slow, sibling) in the simulator."""
    points = np.asarray(capacity(np.arange(round(seconds * 100)) / 100), dtype=np.float64)
    sends = {"spring": {"split": 1.0}, "split": {"slow": 1.0, "sibling": 1.0}}
    stations = [
        Station(name, points if name == "slow" else np.full(len(points), 60e6), sends.get(name, {}), ORIGINAL)
        for name in ("spring", "split", "slow", "sibling")
    ]
    upstreams = {"split": ("spring",), "slow": ("split",), "sibling": ("split",)}
    return Simulation(
        stations, upstreams, lambda name: make_admission(mode, name), 20e6, seconds, seed=seed, faults=faults
    )


@every_mode
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1_000), st.floats(0, 0.5))
def test_a_queue_is_bounded_while_the_slow_stage_stands_still(mode: str, seed: int, lost: float) -> None:
    """For twenty seconds, in which 400 MB come; though half of the signals are lost: credits bound it."""
    simulation = small_simulation(mode, seed, Faults(lost=lost), lambda at: np.where(at > 5, 0.0, 25e6), 25.0)
    trace = simulation.run()
    assert max(trace.queue["slow"]) + max(trace.queue["split"]) < 30e6


@pytest.mark.parametrize("round_output", [0.0, 3e6, 30e6])
@every_mode
def test_a_stage_that_aggregates_settles_on_rounds_that_pay(mode: str, round_output: float) -> None:
    """Small rounds of one that sends each group once a round send more, for which smaller ones would be admitted yet:
    it would end at a few messages a round.

    What the downstream can do is half of what it would get from rounds of 60 MB as quickly as possible.
    """
    seconds, slope, largest = 60.0, 0.05, 60e6
    points = np.full(round(seconds * 100), 1.0)
    least_output = round_output / largest + slope  # for a byte read
    capacity = 100e6 * least_output
    stations = [
        Station("map", points * 200e6, {"reduce": slope}, 500e6, round_output),
        Station("reduce", points * capacity, {}, 500e6),
    ]
    simulation = Simulation(
        stations, {"reduce": ("map",)}, lambda name: make_admission(mode, name), 400e6, seconds, most=largest
    )
    trace = simulation.run()
    late = [applied for at, applied in trace.applied["map"] if at > seconds / 2]
    assert (late[-1] - late[0]) / (seconds / 2) > 0.5 * 100e6
    assert max(trace.queue["reduce"]) < 4 * (round_output + slope * largest) + 8e6


OSCILLATING = [(1, 9), (816, 16), (255, 8), (480, 11), (637, 10), (794, 9)]


@pytest.mark.parametrize(("seed", "megabytes"), OSCILLATING[: examples(len(OSCILLATING))])
def test_stepwise_does_not_oscillate_for_ever(seed: int, megabytes: int) -> None:
    """With a capacity between two levels it turns ever more seldom, also where its own bursts look like quickness."""
    simulation = small_simulation("stepwise", seed, Faults(), lambda at: np.full(len(at), megabytes * 1e6), 240.0)
    trace = simulation.run()
    rates = np.array(trace.rate["split"])
    turns = np.flatnonzero(np.diff(np.sign(np.diff(rates)[np.diff(rates) != 0]))).size
    late = rates[len(rates) * 3 // 4 :]
    assert turns < 60
    assert late.std() / late.mean() < 0.2


# ---- rounds under rates

Limits = tuple[float | None, int | None]  # rate, credit
TEXTS = [f"a b{number % 3}\nthe log c{number}" for number in range(24)]
GRANTS = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from(["split", "retry", "count", "acker"]),
            st.tuples(st.none() | st.floats(1.0, 2_000.0), st.none() | st.integers(-100, 500)),
        ),
        st.floats(0.0, 1.5),  # seconds of the lease
        st.none() | st.integers(0, 60),  # calls of the log until the process dies
    ),
    min_size=5,
    max_size=40,
)


class ThrottledSimulation(TrackedSimulation):
    """Whose planners are granted rates and credits."""

    def start(self) -> None:
        super().start()
        for stage in self.stages:
            self.planners[stage.name]._admission_limit = RateLimiter(stage, self.folder.path)

    def grant(self, limits: dict[str, Limits], seconds: float) -> None:
        """Rates and credits for so many seconds from now on; messages have about 50 bytes."""
        for stage in self.stages:
            rate, credit = limits.get(stage.name, (None, None))
            after_round = max((report.round.number for report in self.reports.reports(stage.name).values()), default=0)
            limit = RateLimit(rate, 50.0, None if credit is None else Credit(credit, after_round))
            write_grant(self.folder.path, stage.name, limit, self.clock + seconds)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(GRANTS)
def test_nothing_is_lost_or_doubled_under_any_limits(grants: list[tuple[dict[str, Limits], float, int | None]]) -> None:
    """And at the end everything that was sent has been taken, to the byte."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        job = WordCountJob("w", "lines", TrackingConfig("w", 2, 4, timeout=30.0), max_messages_per_round=3)
        simulation = ThrottledSimulation(job, Path(folder))
        simulation.feed(*TEXTS)
        for limits, seconds, dies_in in grants:
            simulation.grant(limits, seconds)
            simulation.crash(dies_in)
        simulation.finish()
        assert simulation.counts() == Counter(" ".join(TEXTS).split())
        assert not simulation.dead()
        counting = StageAccounting(simulation.folder.path, simulation.stages, 2, simulation.reports)
        counted = counting.count(simulation.clock)
        queues = {name: counted[name].queue for name, upstreams in counting.upstreams.items() if upstreams}
        assert queues["count"] == 0 and counted["count"].applied > 0
