"""Which copies may still be read: those that are not switched to, and whatever was copied after them."""

from __future__ import annotations

import json

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.unit.copy_retention import Needing
from springline.spark_jobs.streaming.join.wire import Orders, Piece, Side, Switch


def piece(id_: int, giver: int = 0) -> Piece:
    """A piece of this giver's."""
    return Piece(id_, Side.LEFT, giver, 3, (0, 9))


def after(*orders: Orders) -> Needing:
    """What is known after some epochs, each of which is taken up from a state that was read again."""
    found = Needing()
    for each in orders:
        found = from_plain(Needing, json.loads(json.dumps(plain(found))), "here")
        found.obey(each)
    return found


def test_before_the_first_switch_all_copies_are_needed() -> None:
    """Those too that nobody knows the offsets of."""
    assert after(Orders(1, (piece(1), piece(2)))).since == {}


def test_a_copy_is_needed_until_it_and_all_before_it_are_switched_to() -> None:
    """Later ones may be switched to first."""
    epochs = [
        Orders(1, (piece(1), piece(2), piece(3))),
        Orders(2, (), (Switch(piece(2), 4, 9),)),
        Orders(3, (), (Switch(piece(1), 0, 4),)),
        Orders(4, (piece(4),), (Switch(piece(3), 9, 12),)),
        Orders(5, (), (Switch(piece(4), 12, 15),)),
    ]
    told = [after(*epochs[:upto]).since.get(0, 0) for upto in range(1, 6)]
    assert told == [0, 0, 9, 12, 15]
    assert after(*epochs).pieces == {}


def test_givers_are_told_apart() -> None:
    """Each has offsets of its own."""
    found = after(Orders(1, (piece(1), piece(2, 1))), Orders(2, (piece(3, 1),), (Switch(piece(2, 1), 0, 7),)))
    assert found.since == {1: 7} and found.pieces == {0: [(1, None)], 1: [(3, None)]}
