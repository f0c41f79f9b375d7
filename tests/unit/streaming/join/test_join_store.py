"""Stored runs: how they are merged, searched, parted; the loops below them against plain numpy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.kernels import BLOCK, search_ranges, sort_order
from springline.spark_jobs.streaming.join.unit.migration import encode_copy, import_copy
from springline.spark_jobs.streaming.join.unit.migration_select import MigrationCut
from springline.spark_jobs.streaming.join.unit.sorted_runs import merge_runs, sorted_run
from springline.spark_jobs.streaming.join.unit.store import TupleStore
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, Cutover, JoinSide, StateMigration
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.step import Message

SOURCE = np.random.default_rng(3)


def tuples(keys: list[int], seqs: list[int]) -> pa.RecordBatch:
    """Tuples that carry a text and a number, either of them null at times."""
    texts = [None if seq % 5 == 0 else f"t{seq}" for seq in seqs]
    numbers = [None if seq % 7 == 0 else seq / 2 for seq in seqs]
    return pa.record_batch({"key": pa.array(keys, pa.int64()), "seq": seqs, "l.t": texts, "l.x": numbers})


def batch_of(count: int, first: int = 0) -> pa.RecordBatch:
    """Tuples of a few keys."""
    return tuples(SOURCE.integers(-9, 9, count).tolist(), list(range(first, first + count)))


def rows(batches: list[pa.RecordBatch]) -> list[tuple[object, ...]]:
    """All tuples, in order."""
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=lambda row: row[:2])


@pytest.mark.parametrize("low", [LEAST, -5, 0])
@pytest.mark.parametrize("high", [GREATEST, 3, 1 << 40])
def test_keys_are_put_in_order_wherever_they_lie(low: int, high: int) -> None:
    """Stably, over the whole range of 64 bits."""
    keys = SOURCE.integers(low, high, 5_000, endpoint=True)
    assert sort_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    assert sort_order(keys[:0]).size == 0


@pytest.mark.parametrize(
    "reach",
    [(0, 0), (-3, 2), (1, None), (None, -1), (None, None), (5, 9), (-9, -5), (GREATEST, None), (None, -GREATEST)],
)
def test_the_search_finds_what_is_in_reach_and_nothing_else(reach: tuple[int | None, int | None]) -> None:
    """Also where key and reach together go beyond 64 bits."""
    ends = [LEAST, LEAST, LEAST + 4, GREATEST - 4, GREATEST]
    keys = np.sort(np.array([*SOURCE.integers(-40, 40, 3 * BLOCK).tolist(), *ends], np.int64))
    probes = np.sort(np.array([*SOURCE.integers(-45, 45, 60).tolist(), *ends], np.int64))
    low, high = reach
    first, end = np.empty(probes.size, np.int64), np.empty(probes.size, np.int64)
    search_ranges(
        keys, keys[::BLOCK].copy(), probes, low or 0, high or 0, low is not None, high is not None, first, end
    )
    for at, probe in enumerate(probes.tolist()):
        expected = [
            i for i, key in enumerate(keys.tolist())
            if (low is None or key - probe >= low) and (high is None or key - probe <= high)
        ]  # fmt: skip
        assert list(range(first[at], end[at])) == expected


def test_young_runs_are_merged_while_they_are_of_about_one_size() -> None:
    """In order by key and seq; a run that is not merged stays the same object; the greatest seq is known."""
    store, batches = TupleStore(), []
    for number in range(40):
        batches.append(batch_of(17, first=100 * number))
        before = store
        store = store.with_run(sorted_run([batches[-1].slice(9), batches[-1].slice(0, 9)])).settle()
        unchanged_ids = {id(batch) for batch in before.batches} & {id(batch) for batch in store.batches}
        assert len(store.young) - len(unchanged_ids) == 1  # one run is written a round
    assert len(store) == 40 * 17
    assert rows(list(store.batches)) == rows(batches)
    assert len(store.young) <= 4
    for run in (segment.run for segment in store.young):
        places = list(zip(run.keys.tolist(), run.seqs.tolist(), strict=True))
        assert places == sorted(places)
        assert run.greatest == run.seqs.max()
    for older, newer in pairwise(store.young):
        assert len(older) > 4 * len(newer)


def test_merged_runs_carry_texts_and_nulls_with_their_tuples() -> None:
    """Whichever of the two has nulls."""
    one, other = sorted_run([batch_of(30)]), sorted_run([batch_of(10, first=100)])
    assert one is not None
    assert other is not None
    assert rows([merge_runs(one, other).batch]) == rows([one.batch, other.batch])
    assert merge_runs(one, other).batch.schema.names == ["key", "seq", "l.t", "l.x"]


def test_what_is_copied_is_what_is_dropped_and_what_is_taken_in() -> None:
    """By side, keys, seqs, and the cut."""
    store = TupleStore()
    for numbers in ((0, 2), (1, 4), (3, 5)):  # runs whose seqs lie between each other's
        store = store.with_run(sorted_run([batch_of(20, first=20 * number) for number in numbers]))
    piece = StateMigration(4, JoinSide.LEFT, 0, 1, (-3, 4), (10, 90))
    all_rows = rows(list(store.batches))
    expected_rows = [row for row in all_rows if -3 <= row[0] <= 4 and 10 <= row[1] <= 90 and row[1] < 77]  # type: ignore[operator]
    left, (dropped_count,) = store.without([MigrationCut(piece, 77)])
    (batches,) = store.extract([MigrationCut(piece, 77)])
    parts = encode_copy(piece, store.batches[0].schema, batches)
    messages = [Message(offset, arrow_bytes(part)) for offset, part in enumerate(parts)]
    imported = import_copy(Cutover(piece, 0, len(parts)), messages)
    assert imported is not None
    assert [
        tuple(row.values()) for row in imported.batch.to_pylist()
    ] == expected_rows  # in order, whichever run it was in
    assert dropped_count == len(expected_rows)
    assert len(left) == len(all_rows) - len(expected_rows)
    full_cut = MigrationCut(StateMigration(5, JoinSide.LEFT, 0, 1, (LEAST, GREATEST)), GREATEST)
    assert rows([*left.extract([full_cut])[0], imported.batch]) == all_rows
    assert store.without([MigrationCut(replace(piece, keys=(50, 60)), GREATEST)]) == (store, [0])
    with pytest.raises(MigrationCopyError, match=f"hold {len(parts) - 1} of {len(parts)} parts|hold 0 of its parts"):
        import_copy(Cutover(piece, 0, len(parts) - 1), messages[:-1])


def test_a_piece_without_tuples_is_a_message_too() -> None:
    """So that it is known to have been copied."""
    piece = StateMigration(4, JoinSide.LEFT, 0, 1, (0, 0))
    (part,) = encode_copy(piece, batch_of(1).schema, ())
    assert import_copy(Cutover(piece, 0, 1), [Message(0, arrow_bytes(part))]) is None
