"""A join that keeps tuples for a while: each pair within it comes out once, whatever moves, dies or is lost."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.router import TABLE
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES
from springline.spark_jobs.streaming.join.task import migration, task
from springline.spark_jobs.streaming.runtime.history import read_history
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from tests.support.joins.join_simulation import JoinSimulation, Row, join_of
from tests.support.joins.join_tasks import SMALL

KEYS = (0, 1, 2, 100, 101, 205)
EVENTS = ["die", "lose all", "lose join", "lose a unit", "second driver", "save", "units", "die looking"]


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Copies of a few tuples lie in several messages, and stored ones in several levels."""
    with patch.object(migration, "_PART_BYTES", 100), patch.object(task, "Shape", lambda: SMALL):
        yield


def fed_world(
    folder: str,
    chance: random.Random,
    most: int,
    ttl: float | None = None,
    strategy: str = "heavy-split",
    **limits: int,
) -> tuple[JoinSimulation, list[tuple[Row, Row]]]:
    """A join that has started to read 60 rows a side, and the pairs of rows with equal keys."""
    moved_at_once, in_flight = chance.choice([3, 20]), chance.choice([5, 1000])
    control = RebalanceConfig(
        2,
        strategy,
        0.0,
        migration_tuples=moved_at_once,
        in_flight_tuples=in_flight,
        min_tuples=1,
        expires=True,
        **limits,
    )
    job = replace(join_of("l.k = r.k", control, tasks=chance.choice([1, 2, 4])), ttl=ttl)
    simulation = JoinSimulation(job, Path(folder), chance, chance.choice([1, 2]), most)
    left, right = ([(first + at, chance.choice(KEYS), 0) for at in range(60)] for first in (0, 1000))
    simulation.feed("left", left, chance.choice([1, 2, 4]))
    simulation.feed("right", right, chance.choice([1, 2, 4]))
    simulation.run(2)
    return simulation, [(one, two) for one in left for two in right if one[1] == two[1]]


def rounds_of(simulation: JoinSimulation) -> dict[int, RoundPlan]:
    """By the id of each row, the round in which a router read it."""
    stage = simulation.stages[0]
    plans: dict[int, RoundPlan] = {}
    for plan in read_history(stage, simulation.log).plans.values():
        for router, (start, to) in plan.ranges.items():
            for message in simulation.log.fetch(stage.topic, router, start, to):
                for line in bytes(message.value).splitlines():
                    plans[int(line.split(b",")[0])] = plan
    return plans


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1 << 20),
    strategy=st.sampled_from(["heavy-split", "heavy-split", *STRATEGIES.names]),
    keep=st.sampled_from([20.0, 60.0, 200.0]),
    most=st.sampled_from([40, 1_000_000]),
    events=st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 120), st.sampled_from([0.0, 0.016, 0.3, 0.99, 1.1])),
        max_size=6,
    ),
)
def test_pairs_within_the_retention_come_out_once_and_no_others(
    seed: int, strategy: str, keep: float, most: int, events: Sequence[tuple[str, int, float]]
) -> None:
    """The clock jumps while tuples move, processes die, and states are lost."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, every = fed_world(folder, random.Random(seed), most, ttl=keep, strategy=strategy)
        for what, number, jump in (("units", seed, 0.0), *events):
            simulation.clock += jump * keep
            simulation.befall(what, number)
        simulation.finish()
        simulation.want_units(1 + seed % 3)
        simulation.settle()
        clocks = {row: Fraction(plan.clock) for row, plan in rounds_of(simulation).items()}
        expected_pairs = within(every, clocks, Fraction(keep) / 60)
        event(f"tuples moved: {bool(simulation.counts('join')['imported'])}")
        event(f"of all pairs are reported: {round(10 * len(expected_pairs) / len(every)) * 10}%")
        assert simulation.pairs() == expected_pairs
        simulation.clock += 3 * keep
        for _ in range(60):
            simulation.turn()
        assert not any(simulation.stored().values())


def within(pairs: Sequence[tuple[Row, Row]], clocks: dict[int, Fraction], tick: Fraction) -> Counter[tuple[int, int]]:
    """The ids of pairs whose rows were read at most 60 ticks apart."""
    return Counter((one[0], two[0]) for one, two in pairs if abs(clocks[one[0]] // tick - clocks[two[0]] // tick) <= 60)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1 << 20),
    keep_rows=st.sampled_from([5, 30, 90]),
    most=st.sampled_from([40, 1_000_000]),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 120)), max_size=6),
)
def test_of_so_many_rows_that_are_retained_pairs_come_out_once(
    seed: int, keep_rows: int, most: int, events: Sequence[tuple[str, int]]
) -> None:
    """What expires does so at the same round in all units; no row before so many have come after it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, pairs = fed_world(folder, random.Random(seed), most, max_rows=keep_rows)
        for what, number in (("units", seed), *events):
            simulation.befall(what, number)
        simulation.finish()
        simulation.settle()
        rounds, since = rounds_of(simulation), since_of(simulation)
        numbers = {(one[0], two[0]): sorted((rounds[one[0]].number, rounds[two[0]].number)) for one, two in pairs}
        assert simulation.pairs() == Counter(pair for pair, (first, last) in numbers.items() if first >= since[last])
        oldest = max(since.values())
        retained_rows = sum(plan.number >= oldest for plan in rounds.values())
        event(f"rows have expired: {bool(oldest)}")
        assert keep_rows <= retained_rows or not oldest
        assert retained_rows <= sum(simulation.stored().values())


def since_of(simulation: JoinSimulation) -> dict[int, int]:
    """By the number of each round, the first one whose rows answer in it."""
    history = read_history(simulation.stages[0], simulation.log)
    return {
        plan.number: history.broadcast_values[plan.versions[TABLE]]["commands"]["retained_since"]
        if plan.versions
        else 0
        for plan in history.plans.values()
    }
