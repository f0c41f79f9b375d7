"""Which acker holds a root: balance, what moves when ackers come and go, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.tracking.errors import InvalidRingError
from springline.spark_jobs.streaming.tracking.ring import (
    ARCS,
    STRIDE,
    AckerRing,
    PaperRing,
    RingHistory,
    newest_epoch,
    one_at_a_time,
)
from springline.spark_jobs.streaming.tracking.root_id import root_id
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "key"), [("", 0), ("a", 0xCA2E9442), ("The quick brown fox jumps over the lazy dog", 0x519E91F5)]
)
def test_the_hash_is_one_at_a_time_from_right_to_left(text: str, key: int) -> None:
    """Jenkins' vectors are for bytes from left to right."""
    assert one_at_a_time(text[::-1]) == key


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_the_papers_ring_finds_owners_at_once_as_one_by_one(ids: list[int]) -> None:
    ring = PaperRing(range(6))
    assert ring.owners_of(np.array(ids, np.uint64)).tolist() == [ring.owner(one) for one in ids]


def test_an_acker_less_moves_its_own_roots_alone_in_the_papers_ring() -> None:
    ids = np.arange(20_000, dtype=np.uint64) << np.uint64(16)
    before, after = PaperRing(range(6)).owners_of(ids), PaperRing([0, 1, 2, 4, 5]).owners_of(ids)
    assert (before[before != after] == 3).all()
    assert (before != after).any()


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 4095), st.integers(0, 2**36 - 5000), st.integers(0, 2**16 - 5000))
def test_rows_of_a_message_and_first_rows_of_messages_go_round_all_arcs(partition: int, offset: int, row: int) -> None:
    circle = AckerRing.of(range(5))
    rows = circle.owners_of([root_id(partition, offset, row + step) for step in range(ARCS)])
    assert any((np.roll(circle.owners, turn) == rows).all() for turn in range(ARCS))
    messages = circle.owners_of([root_id(partition, offset + step, row) for step in range(ARCS)])
    assert (np.bincount(messages) == np.bincount(circle.owners)).all()


def runs(count: int) -> Iterator[np.ndarray]:
    """So many roots: messages of two partitions, and rows of messages of 5,000."""
    half = np.arange(count // 2, dtype=np.uint64) + np.uint64(1234567)
    yield np.concatenate([half << np.uint64(16), (half << np.uint64(16)) + np.uint64(7 << 52)])
    rows = np.arange(count, dtype=np.uint64)
    yield (np.uint64(99) + rows // np.uint64(5000) << np.uint64(16)) + rows % np.uint64(5000)


def test_six_ackers_hold_the_same_number_of_roots_within_a_hundredth() -> None:
    circle = AckerRing.of(range(6))
    for ids in runs(100_000):
        root_counts = np.bincount(circle.owners_of(ids), minlength=6)
        assert root_counts.sum() == ids.size == 100_000
        assert root_counts.max() / root_counts.mean() <= 1.01


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 11])
def test_an_acker_more_or_less_moves_little_more_than_its_own_share(count: int) -> None:
    less, more = AckerRing.of(range(count)), AckerRing.of(range(count + 1))
    least = 1 / (count + 1)
    assert least - 0.001 <= less.share_moved(more) <= least + 0.04
    assert count < 5 or less.share_moved(more) < 0.2
    assert less.share_moved(less) == 0
    other_ring = AckerRing.of([acker for acker in range(count + 1) if acker != count // 2])
    assert more.share_moved(other_ring) <= least + 0.04


@given(st.sets(st.integers(0, 255), min_size=1, max_size=12))
@settings(max_examples=examples(30), deadline=None)
def test_ranks_count_the_arcs_of_an_acker(ackers: set[int]) -> None:
    circle = AckerRing.of(sorted(ackers))
    most = -(-ARCS // len(ackers))
    for acker in ackers:
        by_row, by_message = circle.ranks(acker)
        assert (np.diff(by_row) == (circle.owners == acker)).all()
        assert (np.diff(by_message) == (circle.owners[np.arange(ARCS) * STRIDE % ARCS] == acker)).all()
        assert by_row[0] == by_message[0] == 0
        assert 0 < by_row[-1] == by_message[-1] <= most
    assert not circle.ranks(next(one for one in range(256) if one not in ackers)).any()


def test_a_ring_is_identified_by_its_ackers_in_any_order() -> None:
    circle = AckerRing.of(json.loads(json.dumps(AckerRing.of([4, 0, 2]).ackers)))
    assert circle == AckerRing.of([0, 2, 4])
    assert circle.share_moved(AckerRing.of([2, 4, 0])) == 0


def test_epochs_are_numbered_from_one_and_each_has_its_circle() -> None:
    epochs = RingHistory.of([0, 1], max_ackers=4).with_acker(3).without_acker(0)
    assert (epochs.epoch, epochs.ring.ackers) == (3, (1, 3))
    assert [epochs.ring_at_epoch(number).ackers for number in (1, 2, 3)] == [(0, 1), (0, 1, 3), (1, 3)]
    assert RingHistory.from_json(json.loads(json.dumps(epochs.as_json())), "here") == epochs


def test_the_last_sixteen_epochs_are_kept() -> None:
    epochs = RingHistory.of([0], max_ackers=2)
    for _ in range(10):
        epochs = epochs.with_acker(1).without_acker(1)
    assert list(epochs.rings) == list(range(6, 22))
    assert newest_epoch(json.loads(json.dumps(epochs.as_json()))) == (21, (0,))
    with pytest.raises(InvalidRingError, match="epoch 5"):
        epochs.ring_at_epoch(5)


def test_a_change_of_the_ring_that_makes_no_sense_is_refused_by_its_acker() -> None:
    epochs = RingHistory.of([0, 2], max_ackers=4)
    with pytest.raises(InvalidRingError, match="acker 2 is already in the ring"):
        epochs.with_acker(2)
    with pytest.raises(InvalidRingError, match="acker 1 is not in the ring"):
        epochs.without_acker(1)
    with pytest.raises(InvalidRingError, match=r"acker 4: expected 0 to 3"):
        epochs.with_acker(4)
    with pytest.raises(InvalidRingError, match="acker 0 is the last"):
        epochs.without_acker(2).without_acker(0)
    for ackers in ([], [1, 1], [-1], [256]):
        with pytest.raises(InvalidRingError):
            AckerRing.of(ackers)
    with pytest.raises(InvalidRingError, match="acker 4"):
        RingHistory.of([4], max_ackers=4)
