"""Which copies may still be read: those that are not switched to, and whatever was copied after them."""

from __future__ import annotations

import json

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.task.copy_retention import CopyRetention
from springline.spark_jobs.streaming.join.wire import Cutover, EpochCommands, JoinSide, StateMigration


def piece(id_: int, giver: int = 0) -> StateMigration:
    """A piece of this giver's."""
    return StateMigration(id_, JoinSide.LEFT, giver, 3, (0, 9))


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
