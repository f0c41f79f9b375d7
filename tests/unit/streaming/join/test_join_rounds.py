"""The step of a task: when it takes a round, what it leaves for later, what it obeys, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidBatchError, InvalidCommandsError
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    Action,
    Cutover,
    EpochCommands,
    JoinSide,
    RoutedBatch,
    StateMigration,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.step import EndedRound, Message
from tests.support.joins.join_tasks import JoinTasks

LEFT, RIGHT = Relation("l", {"a": "int", "id": "int"}), Relation("r", {"a": "int", "id": "int"})
WHERE = "l.a = r.a"
PIECE = StateMigration(1, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))


def new_join_tasks(routers: int = 1, units: int = 1, most: int = 1_000, tasks: int | None = None) -> JoinTasks:
    """A join by `a` that shows ids."""
    return JoinTasks(
        Condition.of(LEFT, RIGHT, WHERE, ["l.id AS one", "r.id AS two"]), routers, units, most, tasks=tasks
    )


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
    task.log += [Message(0, arrow_bytes(RoutedBatch(1, own).to_batch())), EndedRound(0, 1, 0, 0, units=1)]
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
