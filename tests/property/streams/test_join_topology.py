"""A join's routers, units and controller together: each pair comes out once, whatever moves, dies, is lost or late."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.rebalance import read_controller_state
from springline.spark_jobs.streaming.join.router import TABLE
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES
from springline.spark_jobs.streaming.join.task import migration, task
from springline.spark_jobs.streaming.runtime.history import read_history
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from tests.support.examples import examples
from tests.support.joins.join_simulation import JoinSimulation, Row, join_of
from tests.support.joins.join_tasks import SMALL

JOINS: dict[str, Callable[[Row, Row], bool]] = {
    "l.k = r.k": lambda one, two: one[1] == two[1],
    "l.k = r.k AND l.v <= r.v": lambda one, two: one[1] == two[1] and one[2] <= two[2],
    "abs(l.k - r.k) <= 1": lambda one, two: abs(one[1] - two[1]) <= 1,
    "l.k < r.k AND l.v = 1": lambda one, two: one[1] < two[1] and one[2] == 1,
}
EVENTS = [
    *("die", "die", "die looking", "lose all", "lose route", "lose join", "lose a unit", "second driver", "full"),
    *("save", "save", "units", "partition"),
]
EXPIRING_EVENTS = ["die", "lose all", "lose join", "lose a unit", "second driver", "save", "units", "die looking"]
KEYS = (0, 1, 2, 3, 100, 101, 102, 205, 206, 310, 311, 415)  # neighbours, and such as are in other buckets for a band


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Copies of a few tuples lie in several messages, and stored ones in several levels."""
    with patch.object(migration, "_PART_BYTES", 100), patch.object(task, "Shape", lambda: SMALL):
        yield


def rows_of(chance: random.Random, many: int, first: int) -> list[Row]:
    """Rows of which many have the same key, another one after a while."""
    hot = chance.choices(KEYS, k=2)
    return [
        (first + at, chance.choice([hot[at * 2 // many], chance.choice(KEYS)]), chance.randrange(4))
        for at in range(many)
    ]


def simulation_of(
    folder: str,
    chance: random.Random,
    *,
    on: str = "l.k = r.k",
    strategy: str = "heavy-split",
    itself: bool = False,
    most: int = 1_000_000,
    ttl: float | None = None,
    **limits: Any,
) -> tuple[JoinSimulation, list[tuple[Row, Row]]]:
    """A world that is fed, and the pairs of rows that match; with `ttl` or limits, they expire."""
    moved_at_once, in_flight = chance.choice([3, 20]), chance.choice([5, 1000])
    control = RebalanceConfig(
        2, strategy, 0.0, migration_tuples=moved_at_once, in_flight_tuples=in_flight, min_tuples=1, **limits
    )
    job = replace(join_of(on, control, itself=itself, tasks=chance.choice([1, 2, 3, 4])), ttl=ttl)
    simulation = JoinSimulation(job, Path(folder), chance, chance.choice([1, 2]), most)
    left = rows_of(chance, 60, 0)
    right = left if itself else rows_of(chance, 60, 1000)
    for source, rows in zip(simulation.job.sources, (left, right), strict=False):
        simulation.feed(source, rows, chance.choice([1, 2, 4]))
    return simulation, [(one, two) for one in left for two in right if JOINS[on](one, two)]


def ids_of(pairs: Sequence[tuple[Row, Row]]) -> Counter[tuple[int, int]]:
    """The ids of pairs, each once."""
    return Counter((one[0], two[0]) for one, two in pairs)


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1 << 20),
    strategy=st.sampled_from(["heavy-split", "heavy-split", *STRATEGIES.names]),
    on=st.sampled_from(sorted(JOINS)),
    itself=st.booleans(),
    most=st.sampled_from([40, 1_000_000]),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 120)), max_size=6),
)
def test_each_pair_comes_out_once_whatever_moves_dies_or_is_lost(
    seed: int, strategy: str, on: str, itself: bool, most: int, events: Sequence[tuple[str, int]]
) -> None:
    """Under every strategy: processes die, states are lost, places are full, others take over, units come and go."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        chance = random.Random(seed)
        simulation, pairs = simulation_of(folder, chance, on=on, strategy=strategy, itself=itself, most=most)
        simulation.run(2)
        for what, number in (("units", seed), *events):
            simulation.befall(what, number)
        simulation.finish()
        simulation.want_units(1 + seed % 3)
        simulation.settle()
        event(f"pieces were switched to: {bool(simulation.switched())}")
        event(f"copies were deleted: {bool(simulation.cut[simulation.job.copies])}")
        event(f"tuples moved: {bool(simulation.counts('join')['imported'])}")
        assert simulation.pairs() == ids_of(pairs)


@pytest.mark.parametrize(("strategy", "on"), zip([*STRATEGIES.names, "heavy-split"], itertools.cycle(JOINS)))
def test_tuples_do_move_while_rows_come_and_units_die(strategy: str, on: str) -> None:
    """From 2 units to 4, to 3, and back: pieces are switched to under every strategy, and the others are empty."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        chance = random.Random(f"{strategy} {on}")
        simulation, pairs = simulation_of(folder, chance, on=on, strategy=strategy)
        for units, loses in ((2, ""), (4, "join"), (3, "all")):
            simulation.want_units(units)
            simulation.run(4, 150, loses)
        simulation.finish()
        simulation.want_units(2)
        simulation.settle()
        assert simulation.switched() and simulation.counts("join")["imported"] > 0
        assert read_controller_state(simulation.folder).table.units == (0, 1)
        assert not simulation.stored()[2] and not simulation.stored()[3]
        assert simulation.pairs() == ids_of(pairs)


@pytest.mark.parametrize("seed", range(3))
def test_copies_that_every_state_is_done_with_are_deleted_and_nothing_is_missed(seed: int) -> None:
    """States are persisted at any time, and lost; when all has moved and is persisted, no copy is left."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, pairs = simulation_of(folder, random.Random(seed), most=40)
        for units, loses in ((4, "join"), (2, "all"), (3, "join")):
            simulation.want_units(units)
            for _ in range(3):
                simulation.run(2)
                simulation.save()
            simulation.run(4, 60, loses)
        simulation.finish()
        simulation.settle()
        simulation.save()
        assert (
            simulation.switched()
            and simulation.cut[simulation.job.copies]
            and not simulation.messages(simulation.job.copies)
        )
        simulation._lose("all")
        simulation.start()
        simulation.want_units(1)
        simulation.settle()
        assert simulation.pairs() == ids_of(pairs)


def rounds_of(simulation: JoinSimulation) -> dict[int, RoundPlan]:
    """By the id of each row, the round in which a router read it."""
    stage = simulation.stages[0]
    plans: dict[int, RoundPlan] = {}
    for plan in read_history(stage, simulation.log).plans.values():
        for partition, (start, to) in plan.ranges.items():
            for message in simulation.log.fetch(stage.topic, partition, start, to):
                for line in bytes(message.value).splitlines():
                    plans[int(line.split(b",")[0])] = plan
    return plans


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1 << 20),
    strategy=st.sampled_from(["heavy-split", "heavy-split", *STRATEGIES.names]),
    keep=st.sampled_from([20.0, 60.0, 200.0]),
    most=st.sampled_from([40, 1_000_000]),
    events=st.lists(
        st.tuples(st.sampled_from(EXPIRING_EVENTS), st.integers(0, 120), st.sampled_from([0.0, 0.016, 0.3, 0.99, 1.1])),
        max_size=6,
    ),
)
def test_pairs_within_the_retention_come_out_once_and_no_others(
    seed: int, strategy: str, keep: float, most: int, events: Sequence[tuple[str, int, float]]
) -> None:
    """The clock jumps while tuples move, processes die, and states are lost."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, every = simulation_of(
            folder, random.Random(seed), strategy=strategy, most=most, ttl=keep, expires=True
        )
        simulation.run(2)
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


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1 << 20),
    keep_rows=st.sampled_from([5, 30, 90]),
    most=st.sampled_from([40, 1_000_000]),
    events=st.lists(st.tuples(st.sampled_from(EXPIRING_EVENTS), st.integers(0, 120)), max_size=6),
)
def test_of_so_many_rows_that_are_retained_pairs_come_out_once(
    seed: int, keep_rows: int, most: int, events: Sequence[tuple[str, int]]
) -> None:
    """What expires does so at the same round in all units; no row before so many have come after it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, pairs = simulation_of(folder, random.Random(seed), most=most, expires=True, max_rows=keep_rows)
        simulation.run(2)
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
        plan.number: history.broadcast_values[plan.broadcast_hashes[TABLE]]["commands"]["retained_since"]
        if plan.broadcast_hashes
        else 0
        for plan in history.plans.values()
    }
