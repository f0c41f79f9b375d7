"""Folds: the ranges of their messages, their batches, their values; tuples without ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.tracking.acker.fold_table import FoldTable
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges, concat_roots, folds_of_batch, folds_to_batch
from springline.spark_jobs.streaming.tracking.ids import child, fold_value, root_edge, row_values
from springline.spark_jobs.streaming.tracking.root_id import OFFSETS, ROWS, root_id
from springline.spark_jobs.streaming.tracking.tuples import TupleBatch, TupleKind


def test_neighbours_with_equally_many_rows_are_one_range() -> None:
    """A gap in the offsets, or another number of rows, begins the next."""
    ranges = RowRanges.of([3, 4, 5, 7, 8, 9], [2, 2, 2, 2, 5, 5])
    assert [column.tolist() for column in ranges] == [[3, 7, 8], [3, 1, 2], [2, 2, 5]]
    assert ranges.root_count == 18
    assert [column.tolist() for column in RowRanges.of([], [])] == [[], [], []]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), unique_by=lambda pair: pair[0], min_size=1))
def test_ranges_name_the_same_messages(pairs: list[tuple[int, int]]) -> None:
    """And a fold the same roots."""
    pairs.sort()
    ranges = RowRanges.of(*zip(*pairs, strict=True))
    assert list(zip(*(column.tolist() for column in ranges.each_message()), strict=True)) == pairs
    roots = Fold.registration(7, ranges, 1).roots
    assert roots.tolist() == [root_id(7, offset, row) for offset, rows in pairs for row in range(rows)]


def test_a_fold_names_its_first_root_and_stays_within_what_ids_allow() -> None:
    """Its messages, and their rows."""
    fold = Fold.registration(5, RowRanges.of([9, 10], [3, 3]), 4)
    assert (fold.first, fold.partition, fold.offset) == (root_id(5, 9), 5, 9)
    for offset, rows in ((OFFSETS - 1, 1), (0, ROWS + 1)):
        with pytest.raises(InvalidRootError):
            Fold.registration(5, RowRanges.of([offset], [rows]), 4)


def test_folds_are_the_same_behind_a_batch_and_its_bytes_the_same_whatever_their_order() -> None:
    """Also in a slice, and without messages."""
    folds = [
        Fold.registration(5, RowRanges.of([9, 10, 14], [3, 3, 1]), 4),
        Fold(root_id(4, 1), 7, tick=3),
        Fold.registration(6, RowRanges.of([1], [1]), 0, by_row=False)._replace(tick=9),
    ]
    batch = folds_to_batch(folds)
    assert arrow_bytes(batch) == arrow_bytes(folds_to_batch(folds[::-1]))
    for part, expected in ((batch, [1, 0, 2]), (batch.slice(1), [0, 2]), (batch.slice(3), [])):
        assert list(map(str, folds_of_batch(part))) == [str(folds[index]) for index in expected]
    assert concat_roots([folds[0], folds[1]]).size == 7 and not concat_roots([]).size


def test_a_table_of_a_snapshot_goes_on_as_the_one_that_wrote_it() -> None:
    """Its numbers too."""
    table = FoldTable()
    table.register(Fold.registration(5, RowRanges.of([9, 10], [3, 3]), 4), 6)
    table.ack(root_id(5, 9), 1, 7)
    table.ack(root_id(5, 30), 1, 8)
    after = FoldTable.of(table.snapshot())
    assert (after.in_flight, after.nbytes) == (table.in_flight, table.nbytes) == (7, 60)
    for each in (table, after):
        each.ack(root_id(5, 9), 5, 9)
        assert [tuple(completed) for completed in each.drain_completed()] == [(6, 6)]
        assert each.low_watermarks() == {} and len(each) == 1


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.integers(0, 3))
def test_values_are_the_xor_of_the_tuples_ids(applied: list[bool], receiver: int) -> None:
    """By message in a fold, by root in an attempt."""
    messages = np.array([root_id(3, 8), root_id(3, 9)], np.uint64)
    ids = [
        child(root_edge(message, 0), receiver, number)
        for message, numbers in zip(messages.tolist(), ((5, 6), (0, 1, 2, 3)), strict=True)
        for number in numbers
    ]
    expected, edges = 0, [0, 0]
    for place, (each, counts) in enumerate(zip(ids, applied, strict=True)):
        expected ^= each if counts else 0
        edges[place > 1] ^= root_edge(each, 2) if counts else 0
    mask = np.array(applied)
    assert fold_value(messages, [5, 0], [2, 4], receiver, mask) == expected
    assert row_values(messages + np.uint64(7), [5, 0], [2, 4], receiver, 2, mask).tolist() == edges
    assert fold_value(messages, [5, 0], [2, 4], receiver) == np.bitwise_xor.reduce(np.array(ids, np.uint64))


def test_tuples_are_the_same_behind_a_batch() -> None:
    """Of each kind; a batch without the header is refused."""
    roots, firsts, counts = np.array([9, 8], np.uint64), np.array([3, 0]), np.array([1, 2])
    values = pa.array([b"a", b"b", b"c"])
    for tuples in (
        TupleBatch(TupleKind.FOLDED, roots, firsts, counts, values, fold=1 << 63),
        TupleBatch(TupleKind.RETRIED, roots, firsts, counts, values, attempt=4),
        TupleBatch(TupleKind.AUDIT, roots, firsts, counts),
    ):
        batch = pa.ipc.open_stream(arrow_bytes(tuples.to_batch())).read_next_batch()
        read = TupleBatch.of(batch)
        assert list(map(str, read)) == list(map(str, tuples))
        part = TupleBatch.of(batch.slice(1))
        assert part.counts.tolist() == [2]
        assert part.values is None or part.values.to_pylist() == [b"b", b"c"]
    with pytest.raises(InvalidUpdateError, match="without tracking"):
        TupleBatch.of(pa.RecordBatch.from_pydict({"word": [b"a"]}))
