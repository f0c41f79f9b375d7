"""Retention: which stored tuples answer, by the clocks of router rounds, and what becomes of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.routing.controller import (
    JoinObservation,
    RebalanceConfig,
    initial_state,
    loads_of,
)
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.task.retention import Retention
from springline.spark_jobs.streaming.join.task.store import TupleStore
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    EpochCommands,
    JoinSide,
    KeyBand,
    StateMigration,
    first_seq,
)
from tests.support.joins.join_tasks import JoinTasks

LEFT, RIGHT = Relation("l", {"a": "int", "id": "int"}), Relation("r", {"a": "int", "id": "int"})
KEEP = 60.0  # so that a tick is a second
PIECE = StateMigration(1, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))


def new_join_tasks(keep: float | None = KEEP, units: int = 1, most: int = 1_000) -> JoinTasks:
    """A join by `a` that shows ids."""
    return JoinTasks(Condition.of(LEFT, RIGHT, "l.a = r.a", ["l.id AS one", "r.id AS two"]), 1, units, most, keep)


def route(join_tasks: JoinTasks, clock: float, orders: EpochCommands | None = None, **ids: list[int]) -> None:
    """A round at a clock, with rows of one key, which unit 0 stores."""
    join_tasks.clock = clock
    join_tasks.route(
        [{JoinSide[name.upper()]: [{"a": 7, "id": each} for each in own] for name, own in ids.items()}], orders=orders
    )


def stored(join_tasks: JoinTasks, unit: int = 0, side: str = "left") -> int:
    """How many tuples of a side lie in a unit."""
    return int(join_tasks.gauges_of(unit)["stored"][side])


@pytest.mark.parametrize("keys", ["the same", "ascending", "scattered"])
def test_what_is_stored_is_bounded_in_an_endless_stream(keys: str) -> None:
    """At most twice what is kept, and 61 ticks of the time."""
    join_tasks = new_join_tasks()
    (task,), most, scalars = join_tasks.tasks, [], []
    for number in range(240):
        join_tasks.clock += 3.0
        of = {"the same": 7, "ascending": number, "scattered": number * 37 % 101}[keys]
        join_tasks.route([{JoinSide.LEFT: [{"a": of, "id": 3 * number + each} for each in range(3)]}])
        join_tasks.step(task)
        most.append(stored(join_tasks))
        scalars.append(len(task.state.scalars["retention"]["tick_starts"]))
    assert max(most) <= 2 * 3 * (61 / 3 + 1)
    assert max(scalars) <= 61 and len(json.dumps(task.state.scalars)) < 6_000


@pytest.mark.parametrize(("more", "left"), [([4], 2), ([], 1)])
def test_rows_that_had_expired_before_a_piece_was_copied_are_not_of_it(more: list[int], left: int) -> None:
    """They lie in one segment with another row at the cut, and vanish when that is cleaned at the end of the round."""
    join_tasks = new_join_tasks(units=2)
    giver = join_tasks.tasks[0]
    route(join_tasks, 0.0, left=[1, 2])
    route(join_tasks, 40.0, left=[3])
    route(join_tasks, 70.0, EpochCommands(1, (PIECE,)), left=more)
    join_tasks.finish()
    switch = join_tasks.switch(PIECE)
    assert switch is not None and giver.counts["copied"] == 1 and stored(join_tasks) == left
    route(join_tasks, 72.0, EpochCommands(2, cutovers=(switch,)))
    route(join_tasks, 73.0, right=[6])
    join_tasks.finish()
    assert giver.counts["dropped"] == stored(join_tasks, 1) == 1
    assert join_tasks.pairs == {(one, 6): 1 for one in (3, *more)}


def test_pieces_of_one_side_do_not_hold_up_the_other() -> None:
    """The left piece stays as it was copied; right tuples vanish."""
    join_tasks = new_join_tasks(units=2)
    route(join_tasks, 0.0, left=[1], right=[2])
    route(join_tasks, 10.0, EpochCommands(1, (PIECE,)))
    route(join_tasks, 90.0)
    join_tasks.finish()
    assert (stored(join_tasks), stored(join_tasks, side="right")) == (1, 0)


def test_rows_from_before_it_was_declared_count_as_of_the_first_round_with_a_clock() -> None:
    """A job may be stopped, and go on with another declaration."""
    join_tasks = new_join_tasks(keep=None)
    route(join_tasks, 0.0, left=[1])
    join_tasks.finish()
    state = join_tasks.tasks[0].state
    restored_tasks = new_join_tasks()
    restored_tasks.round, restored_tasks.tasks[0].state = 1, state
    route(restored_tasks, 1000.0, right=[2])
    route(restored_tasks, 1060.0, right=[3])
    route(restored_tasks, 1061.0, right=[4])
    restored_tasks.finish()
    assert restored_tasks.pairs == {(1, 2): 1, (1, 3): 1}


def test_nothing_of_it_is_remembered_where_tuples_are_kept_for_ever() -> None:
    """Neither in the unit's state nor in its stores'."""
    join_tasks, other = new_join_tasks(keep=None), new_join_tasks()
    for each in (join_tasks, other):
        route(each, 0.0, left=[1])
        route(each, 1e9, left=[2])
        each.finish()
    scalars, more = (each.tasks[0].state.scalars for each in (join_tasks, other))
    assert set(more) - set(scalars) == {"retention"}
    assert set(more["stores"]["left"]) - set(scalars["stores"]["left"]) == {"expired"}
    assert stored(join_tasks) == 2 and stored(other) == 1


def test_a_retention_goes_from_tick_to_tick() -> None:
    """A tick's first round is remembered until no later round can need it; also a jump leaves the last one."""
    retention = Retention(KEEP)
    for number, clock in enumerate((0.0, 0.9, 1.0, 59.9, 60.99), 1):
        retention = retention.advance_to(number, clock)
    assert retention == Retention(KEEP, ((0.0, 1), (1.0, 3), (59.9, 4), (60.99, 5)), 0)
    retention = retention.advance_to(6, 61.0)
    assert retention == Retention(KEEP, ((1.0, 3), (59.9, 4), (60.99, 5), (61.0, 6)), 3)
    assert from_json_value(Retention, json.loads(json.dumps(to_json_value(retention))), "here") == retention
    assert retention.advance_to(7, 1e9) == Retention(KEEP, ((1e9, 7),), 7)


def test_heavy_keys_are_reckoned_by_what_is_left_where_tuples_expire() -> None:
    """They are counted for ever: a share of all that came is taken for the same share of what is stored."""
    sketch = Sketch.from_json({"top": [[7, 500]], "total": 1000, "missed": 0})
    observation: Any = JoinObservation({0: 1}, (sketch, sketch), {0: (60, 1000), 1: (40, 1000)})
    for expiring, parts, probes in ((False, 500, 500), (True, 50, 500)):
        control = RebalanceConfig(2, expires=expiring)
        course = initial_state(control, 4)
        course = course.__class__(
            course.table, heavy_keys=course.heavy_keys.with_sketches(course.table, (sketch, sketch))
        )
        left = next(one for one in loads_of(course, observation, control).heavy if one.side is JoinSide.LEFT)
        assert (left.count, left.probes) == (parts, probes)


def test_what_had_expired_stays_so_when_more_is_to_be_kept() -> None:
    """As after `keep` was left out, or made longer."""
    store = TupleStore(KeyBand(0, 0))
    for round_, expected in ((5, 5), (0, 5), (7, 7)):
        store.expire(first_seq(round_), purging=False)
        assert store.expired == first_seq(expected)
