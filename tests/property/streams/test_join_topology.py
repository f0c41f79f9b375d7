"""A join's routers, units and controller together: each pair comes out once, whatever moves, dies, is lost or late."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.rebalance import read_controller_state
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES
from springline.spark_jobs.streaming.join.task import migration, task
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


def simulation_of(folder: str, on: str, strategy: str, chance: random.Random, *, itself: bool, most: int) -> Any:
    """A world that is fed, and the pairs that are to come of it."""
    moved_at_once, in_flight = chance.choice([3, 20]), chance.choice([5, 1000])
    control = RebalanceConfig(
        2, strategy, 0.0, migration_tuples=moved_at_once, in_flight_tuples=in_flight, min_tuples=1
    )
    job = join_of(on, control, itself=itself, tasks=chance.choice([1, 2, 3, 4]))
    simulation = JoinSimulation(job, Path(folder), chance, chance.choice([1, 2]), most)
    left = rows_of(chance, 60, 0)
    right = left if itself else rows_of(chance, 60, 1000)
    for source, rows in zip(simulation.job.sources, (left, right), strict=False):
        simulation.feed(source, rows, chance.choice([1, 2, 4]))
    return simulation, Counter((one[0], two[0]) for one in left for two in right if JOINS[on](one, two))


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
        simulation, expected_pairs = simulation_of(folder, on, strategy, random.Random(seed), itself=itself, most=most)
        simulation.run(2)
        for what, number in (("units", seed), *events):
            simulation.befall(what, number)
        simulation.finish()
        simulation.want_units(1 + seed % 3)
        simulation.settle()
        event(f"pieces were switched to: {bool(simulation.switched())}")
        event(f"copies were deleted: {bool(simulation.cut[simulation.job.copies])}")
        event(f"tuples moved: {bool(simulation.counts('join')['imported'])}")
        assert simulation.pairs() == expected_pairs


@pytest.mark.parametrize(("strategy", "on"), zip([*STRATEGIES.names, "heavy-split"], itertools.cycle(JOINS)))
def test_tuples_do_move_while_rows_come_and_units_die(strategy: str, on: str) -> None:
    """From 2 units to 4, to 3, and back: pieces are switched to under every strategy, and the others are empty."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        chance = random.Random(f"{strategy} {on}")
        simulation, expected_pairs = simulation_of(folder, on, strategy, chance, itself=False, most=1_000_000)
        for units, loses in ((2, ""), (4, "join"), (3, "all")):
            simulation.want_units(units)
            simulation.run(4, 150, loses)
        simulation.finish()
        simulation.want_units(2)
        simulation.settle()
        assert simulation.switched() and simulation.counts("join")["imported"] > 0
        assert read_controller_state(simulation.folder).table.units == (0, 1)
        assert not simulation.stored()[2] and not simulation.stored()[3]
        assert simulation.pairs() == expected_pairs


@pytest.mark.parametrize("seed", range(3))
def test_copies_that_every_state_is_done_with_are_deleted_and_nothing_is_missed(seed: int) -> None:
    """States are persisted at any time, and lost; when all has moved and is persisted, no copy is left."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        simulation, expected_pairs = simulation_of(
            folder, "l.k = r.k", "heavy-split", random.Random(seed), itself=False, most=40
        )
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
        assert simulation.pairs() == expected_pairs
