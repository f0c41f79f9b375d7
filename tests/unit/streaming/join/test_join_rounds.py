"""The step of a task: when it takes a round, what it leaves for later, what it obeys, and what it refuses.

With retention: which stored tuples answer, by the clocks of router rounds, and what becomes of the others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidBatchError, InvalidCommandsError
from springline.spark_jobs.streaming.join.routing.controller import (
    JoinObservation,
    RebalanceConfig,
    initial_state,
    loads_of,
)
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.task.copy_retention import CopyRetention
from springline.spark_jobs.streaming.join.task.retention import Retention
from springline.spark_jobs.streaming.join.task.store import TupleStore
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    Action,
    Cutover,
    EpochCommands,
    JoinSide,
    KeyBand,
    RoutedBatch,
    StateMigration,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import EndedRound
from tests.support.joins.join_tasks import JoinTasks

LEFT, RIGHT = Relation("l", {"a": "int", "id": "int"}), Relation("r", {"a": "int", "id": "int"})
WHERE = "l.a = r.a"
KEEP = 60.0  # so that a tick is a second
PIECE = StateMigration(1, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))


def new_join_tasks(routers: int = 1, units: int = 1, most: int = 1_000, **more: Any) -> JoinTasks:
    """A join by `a` that shows ids."""
    return JoinTasks(Condition.of(LEFT, RIGHT, WHERE, ["l.id AS one", "r.id AS two"]), routers, units, most, **more)


def retaining(units: int = 1) -> JoinTasks:
    """One whose tuples are kept for a minute."""
    return new_join_tasks(units=units, keep=KEEP)


def rows(*ids: int) -> list[dict[str, int]]:
    """Rows of one key."""
    return [{"a": 7, "id": each} for each in ids]


def test_a_round_waits_until_every_router_unit_has_ended_it() -> None:
    """Half a round is kept; several whole ones are done at once."""
    join_tasks = new_join_tasks(routers=2)
    for number in range(3):
        join_tasks.route([{JoinSide.LEFT: rows(number)}, {JoinSide.RIGHT: rows(number)}])
    (task,) = join_tasks.tasks
    ends = [at for at, each in enumerate(task.log) if isinstance(each, EndedRound)]
    join_tasks.step(task, ends[1])  # all but the end of round 1 at the second router
    assert task.gauges["pending"] == {"rounds": 0, "tuples": 4, "probes": 0}
    assert not task.pairs
    join_tasks.step(task, ends[5])  # now the ends of rounds 1 and 2, and round 3 but for its last end
    assert task.gauges["round"] == 2
    assert task.pairs == {(one, two): 1 for one in (0, 1) for two in (0, 1)}
    join_tasks.finish()
    assert task.pairs == {(one, two): 1 for one in range(3) for two in range(3)}
    assert join_tasks.gauges_of(0)["stored"] == {"left": 3, "right": 3}
    assert task.counts["pairs"] == 9
    assert task.counts["stored"] == 6


def test_what_one_round_has_no_room_for_is_answered_later_before_anything_moves() -> None:
    """The piece is copied once the probes before it are answered, and it has all their tuples."""
    join_tasks = new_join_tasks(units=2, most=4)
    join_tasks.route([{JoinSide.LEFT: rows(*range(6)), JoinSide.RIGHT: rows(*range(5))}])
    join_tasks.route([{}], orders=EpochCommands(1, (PIECE,)))
    giver = join_tasks.tasks[0]
    output = join_tasks.step(giver)
    assert output.counts["pairs"] == 4
    assert giver.gauges["pending"]["rounds"] == 2
    assert giver.gauges["epoch"] == 0
    assert not output.feedback
    join_tasks.finish()
    assert giver.gauges["epoch"] == 1
    assert giver.gauges["copied"] == {"1": {"rows": 6, "bytes": 6 * 25, "parts": 1, "stage_round": giver.rounds}}
    assert join_tasks.pairs == {(one, two): 1 for one in range(6) for two in range(5)}
    assert giver.most == 4


@pytest.mark.parametrize(("receiver", "tasks"), [(1, 3), (2, 2)])
def test_a_switch_moves_exactly_what_was_copied(receiver: int, tasks: int) -> None:
    """To a unit of another task or of the same one; what came to the giver after the copy stays there."""
    join_tasks, piece = new_join_tasks(units=3, tasks=tasks), replace(PIECE, receiver=receiver)
    join_tasks.route([{JoinSide.LEFT: rows(1, 2)}])
    join_tasks.route([{JoinSide.LEFT: rows(3), JoinSide.RIGHT: rows(7)}], orders=EpochCommands(1, (piece,)))
    join_tasks.finish()
    switch = join_tasks.switch(piece)
    assert switch is not None
    join_tasks.route([{JoinSide.RIGHT: rows(8)}], orders=EpochCommands(2, cutovers=(switch,)))
    join_tasks.finish()
    left, right = ([join_tasks.gauges_of(unit)["stored"][side] for unit in range(3)] for side in ("left", "right"))
    assert (left[0], left[receiver], sum(left)) == (1, 2, 3) and right == [2, 0, 0]
    dropped, imported = ([task.counts[name] for task in join_tasks.tasks] for name in ("dropped", "imported"))
    assert (dropped[0], sum(dropped)) == (imported[receiver % tasks], sum(imported)) == (2, 2)
    assert join_tasks.tasks[0].gauges["copied"] == {}
    assert join_tasks.pairs == {(one, two): 1 for one in (1, 2, 3) for two in (7, 8)}


def test_tuples_of_a_unit_of_another_task_are_refused() -> None:
    """The router would have another number of tasks."""
    join_tasks = new_join_tasks(units=2)
    schema = join_tasks.condition.routed_schema(JoinSide.LEFT)
    own = pa.record_batch([[1], [first_seq(1)], [1], [Action.BOTH], [1]], schema=schema)
    task = join_tasks.tasks[0]
    task.log += [Message(0, arrow_bytes(RoutedBatch(1, own).to_batch())), EndedRound(0, 1)]
    with pytest.raises(InvalidBatchError, match=r"task 0, router round 1: tuples of units \[1\]"):
        join_tasks.step(task)


def test_a_run_that_is_not_merged_is_the_same_object_in_the_next_state() -> None:
    """So it is not written again."""
    join_tasks = new_join_tasks()
    join_tasks.route([{JoinSide.LEFT: rows(*range(10))}])
    join_tasks.finish()
    (task,) = join_tasks.tasks
    (first,) = task.state.runs["left"]
    join_tasks.route([{JoinSide.LEFT: rows(99)}])
    join_tasks.finish()
    assert task.state.runs["left"][0] is first


def test_orders_that_cannot_be_obeyed_are_refused() -> None:
    """An epoch that goes back; a switch of what was not copied; two routers that disagree."""
    join_tasks = new_join_tasks(units=2)
    join_tasks.route([{}], orders=EpochCommands(3))
    join_tasks.finish()
    join_tasks.route([{}], orders=EpochCommands(2))
    with pytest.raises(InvalidCommandsError, match="epoch 2 does not follow epoch 3"):
        join_tasks.finish()
    join_tasks = new_join_tasks(units=2)
    join_tasks.route([{}], orders=EpochCommands(1, cutovers=(Cutover(PIECE, 0, 1),)))
    with pytest.raises(InvalidCommandsError, match="piece 1 was not copied here"):
        join_tasks.finish()
    join_tasks = new_join_tasks(routers=2)
    (task,) = join_tasks.tasks
    for epoch in (1, 2):
        task.log.append(
            Message(0, arrow_bytes(RoutedBatch(1, pa.record_batch({}), commands=EpochCommands(epoch)).to_batch()))
        )
    with pytest.raises(InvalidCommandsError, match="two router units send different commands"):
        join_tasks.step(task)


def test_a_message_that_no_router_sent_is_refused() -> None:
    """With its offset: bytes of another kind, columns of another join, a round that is over."""
    join_tasks = new_join_tasks()
    join_tasks.route([{JoinSide.LEFT: rows(1)}])
    join_tasks.finish()
    (task,) = join_tasks.tasks
    other = pa.record_batch({"key": [1], "seq": [first_seq(2)], "l.id": ["text"]})
    schema = join_tasks.condition.routed_schema(JoinSide.LEFT)
    own = pa.record_batch([[1], [first_seq(1)], [0], [Action.STORE], [1]], schema=schema)
    for value, message in (
        (b"x", "1 bytes that are not a router message"),
        (arrow_bytes(own), "that are not a router message"),
        (arrow_bytes(RoutedBatch(2, other, JoinSide.LEFT).to_batch()), "columns"),
        (arrow_bytes(RoutedBatch(1, own, JoinSide.LEFT).to_batch()), "is already in round 1"),
    ):
        at = len(task.log)
        task.log.append(Message(5, value))
        with pytest.raises(InvalidBatchError, match=message):
            join_tasks.step(task)
        assert task.at == at + 1


# ---- retention


def route(join_tasks: JoinTasks, clock: float, orders: EpochCommands | None = None, **ids: list[int]) -> None:
    """A round at a clock, with rows of one key, which unit 0 stores."""
    join_tasks.clock = clock
    join_tasks.route([{JoinSide[name.upper()]: rows(*own) for name, own in ids.items()}], orders=orders)


def stored(join_tasks: JoinTasks, unit: int = 0, side: str = "left") -> int:
    """How many tuples of a side lie in a unit."""
    return int(join_tasks.gauges_of(unit)["stored"][side])


@pytest.mark.parametrize("keys", ["the same", "ascending", "scattered"])
def test_what_is_stored_is_bounded_in_an_endless_stream(keys: str) -> None:
    """At most twice what is kept, and 61 ticks of the time."""
    join_tasks = retaining()
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
    join_tasks = retaining(units=2)
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
    join_tasks = retaining(units=2)
    route(join_tasks, 0.0, left=[1], right=[2])
    route(join_tasks, 10.0, EpochCommands(1, (PIECE,)))
    route(join_tasks, 90.0)
    join_tasks.finish()
    assert (stored(join_tasks), stored(join_tasks, side="right")) == (1, 0)


def test_rows_from_before_it_was_declared_count_as_of_the_first_round_with_a_clock() -> None:
    """A job may be stopped, and go on with another declaration."""
    join_tasks = new_join_tasks()
    route(join_tasks, 0.0, left=[1])
    join_tasks.finish()
    state = join_tasks.tasks[0].state
    restored_tasks = retaining()
    restored_tasks.round, restored_tasks.tasks[0].state = 1, state
    route(restored_tasks, 1000.0, right=[2])
    route(restored_tasks, 1060.0, right=[3])
    route(restored_tasks, 1061.0, right=[4])
    restored_tasks.finish()
    assert restored_tasks.pairs == {(1, 2): 1, (1, 3): 1}


def test_nothing_of_it_is_remembered_where_tuples_are_kept_for_ever() -> None:
    """Neither in the unit's state nor in its stores'."""
    join_tasks, other = new_join_tasks(), retaining()
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


# ---- which copies may still be read: those without a switch, and whatever was copied after them


def piece(id_: int, giver: int = 0) -> StateMigration:
    """A piece of this giver's."""
    return replace(PIECE, id=id_, giver=giver)


def after(*orders: EpochCommands, tasks: int = 4) -> CopyRetention:
    """What is known after some epochs, each of which is resumed from a state that was read again."""
    retention = CopyRetention(tasks)
    for each in orders:
        retention = from_json_value(CopyRetention, json.loads(json.dumps(to_json_value(retention))), "here")
        retention.apply(each)
    return retention


def test_a_copy_is_needed_until_it_and_all_before_it_are_switched_to() -> None:
    """Later ones may be switched to first."""
    epochs = [
        EpochCommands(1, (piece(1), piece(2), piece(3))),
        EpochCommands(2, (), (Cutover(piece(2), 4, 9),)),
        EpochCommands(3, (), (Cutover(piece(1), 0, 4),)),
        EpochCommands(4, (piece(4),), (Cutover(piece(3), 9, 12),)),
        EpochCommands(5, (), (Cutover(piece(4), 12, 15),)),
    ]
    boundaries = [after(*epochs[:upto]).deletable_before.get(0, 0) for upto in range(1, 6)]
    assert boundaries == [0, 0, 9, 12, 15]
    assert after(*epochs).migrations == {}


def test_givers_are_distinguished() -> None:
    """Each has offsets of its own."""
    retention = after(
        EpochCommands(1, (piece(1), piece(2, 1))), EpochCommands(2, (piece(3, 1),), (Cutover(piece(2, 1), 0, 7),))
    )
    assert retention.deletable_before == {1: 7} and retention.migrations == {0: [(1, None)], 1: [(3, None)]}


def test_givers_of_one_task_are_distinguished_by_their_migrations_alone() -> None:
    """Their copies are in one partition, in the order of the commands."""
    retention = after(
        EpochCommands(1, (piece(1), piece(2, 2), piece(3, 1))),
        EpochCommands(2, (), (Cutover(piece(1), 0, 7),)),
        tasks=2,
    )
    assert retention.deletable_before == {0: 7} and retention.migrations == {0: [(2, None)], 1: [(3, None)]}
