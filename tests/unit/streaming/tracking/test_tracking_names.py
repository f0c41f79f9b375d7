"""A root's id is the record's name; edges of a tree are mixed from it and are all different."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError
from springline.spark_jobs.streaming.tracking.ids import child, children, root_edge, root_edges
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT, root_id, unpack_root_id

names = st.tuples(st.integers(0, 2**12 - 1), st.integers(0, 2**36 - 2), st.integers(0, 2**16 - 1))
uint64_values = st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(st.lists(names, max_size=20))
def test_ids_sort_as_their_names(given_names: list[tuple[int, int, int]]) -> None:
    assert [unpack_root_id(one) for one in sorted(root_id(*name) for name in given_names)] == sorted(given_names)


@pytest.mark.parametrize(
    ("partition", "offset", "row", "message"),
    [
        (2**12, 0, 0, "partition 4096"),
        (-1, 0, 0, "partition -1"),
        (0, 2**36 - 1, 0, "offset 68719476735"),
        (0, -1, 0, "offset -1"),
        (0, 0, 2**16, "row 65536"),
        (0, 0, -1, "row"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(partition: int, offset: int, row: int, message: str) -> None:
    with pytest.raises(InvalidRootError, match=message) as raised:
        root_id(partition, offset, row)
    assert isinstance(raised.value, StreamError)


@pytest.mark.parametrize("number", [-1, NO_ROOT, 2**64])
def test_what_is_no_id_has_no_name(number: int) -> None:
    with pytest.raises(InvalidRootError, match=str(number)):
        unpack_root_id(number)


def test_children_of_one_parent_differ_by_consumer_and_index() -> None:
    child_ids = {child(7, consumer, index) for consumer in range(50) for index in range(200)}
    assert len(child_ids) == 50 * 200


def test_edges_of_neighbouring_roots_attempts_and_parents_are_all_different() -> None:
    roots = np.arange(1000, dtype=np.uint64)
    edges = np.concatenate([root_edges(roots, attempt) for attempt in (1, 2, 3)])
    all_edges = np.concatenate([edges, *(children(edges, 1, np.full(edges.size, index)) for index in range(3))])
    assert np.unique(all_edges).size == all_edges.size


def test_no_two_pairs_of_neighbouring_edges_have_the_same_sum() -> None:
    """A linear mix would let the parts of different trees cancel each other."""
    edges = root_edges(np.arange(1000, dtype=np.uint64), 1)
    pairs = (edges[:, None] ^ edges[None, :])[np.triu_indices(1000, 1)]
    assert np.unique(pairs).size == pairs.size


@pytest.mark.parametrize("bit", [0, 1, 16, 17, 40, 63])
def test_one_bit_of_a_root_or_of_a_parent_turns_half_of_the_bits_of_an_edge(bit: int) -> None:
    ids = np.arange(2000, dtype=np.uint64) * np.uint64(1 << 16)
    other = ids ^ np.uint64(1 << bit)
    same = np.zeros(ids.size, np.uint64)
    for changed_bits in (root_edges(ids, 1) ^ root_edges(other, 1), children(ids, 1, same) ^ children(other, 1, same)):
        share = np.unpackbits(changed_bits.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
        assert (abs(share - 0.5) < 0.1).all()


@settings(deadline=None)
@given(uint64_values, st.integers(1, 63), st.integers(0, 2**16 - 1), st.integers(0, 2**48 - 1))
def test_no_edge_is_zero_and_one_by_one_is_as_at_once(word: int, attempt: int, consumer: int, index: int) -> None:
    assert root_edge(word, attempt) == root_edges([word], [attempt])[0] != 0
    assert child(word, consumer, index) == children([word], consumer, [index])[0] != 0


def test_the_parent_whose_child_would_be_zero_has_another_child() -> None:
    """The one parent for which the mix gives 0, found by undoing it."""
    step, mask = 0x9E3779B97F4A7C15, 2**64 - 1

    def unmix(value: int) -> int:
        for shift, times in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
            unshifted = value
            for _ in range(3):
                unshifted = value ^ unshifted >> shift
            value = unshifted * pow(times, -1, 2**64) & mask
        return value

    assert child(unmix(-step & mask), 0, 0) == 0xA0761D6478BD642F
