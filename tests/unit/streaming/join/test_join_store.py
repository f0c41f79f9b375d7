"""Copies of stored tuples, and the loops that sort and search keys, against plain numpy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.kernels import BLOCK, search_ranges, sort_order
from springline.spark_jobs.streaming.join.task.migration import encode_copy, import_copy
from springline.spark_jobs.streaming.join.task.migration_select import MigrationCut
from springline.spark_jobs.streaming.join.task.segments import Segment, SegmentTable
from springline.spark_jobs.streaming.join.task.store import TupleStore
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, Cutover, JoinSide, KeyBand, StateMigration
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.step import Message

SOURCE = np.random.default_rng(3)


def tuples(keys: list[int], seqs: list[int]) -> pa.RecordBatch:
    """Tuples of unit 0 that carry a text and a number, either of them null at times."""
    texts = [None if seq % 5 == 0 else f"t{seq}" for seq in seqs]
    numbers = [None if seq % 7 == 0 else seq / 2 for seq in seqs]
    units = pa.array([0] * len(keys), pa.uint8())
    return pa.record_batch({"key": keys, "seq": seqs, "unit": units, "l.t": texts, "l.x": numbers})


def batch_of(count: int, first: int = 0) -> pa.RecordBatch:
    """Tuples of a few keys."""
    return tuples(SOURCE.integers(-9, 9, count).tolist(), list(range(first, first + count)))


def rows(batches: list[pa.RecordBatch]) -> list[tuple[object, ...]]:
    """All tuples, in order."""
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=lambda row: row[1])


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


def test_columns_are_taken_from_all_segments() -> None:
    """Numbers, texts and nulls; segments may be slices, with bits that do not begin at a byte."""
    batches = [batch_of(30).slice(3, 20), batch_of(10, first=101), tuples([1], [103]), batch_of(50, first=200).slice(9)]
    segments = [Segment(1, batches[0]), Segment(30, batches[1]), Segment(40, batches[2]), Segment(50, batches[3])]
    table = SegmentTable(segments, 0, segments[-1].end)
    where = SOURCE.integers(0, len(segments), 500).astype(np.int32)
    at = np.array([SOURCE.integers(0, len(segments[one])) for one in where], np.int32)
    columns = table.take_columns(where, at, {"key": "key", "text": "l.t", "number": "l.x"})
    expected = [batches[one].slice(int(row), 1).to_pylist()[0] for one, row in zip(where, at, strict=True)]
    for array in columns.values():
        array.validate(full=True)
    assert columns["key"].to_pylist() == [row["key"] for row in expected]
    assert columns["text"].to_pylist() == [row["l.t"] for row in expected]
    assert columns["number"].to_pylist() == [row["l.x"] for row in expected]
    assert table.text_sizes(where, at).tolist() == [len(row["l.t"] or "") for row in expected]
    assert [len(one) for one in table.take_columns(where[:0], at[:0], {"a": "key", "b": "l.t"}).values()] == [0, 0]


def test_what_is_copied_is_what_is_dropped_and_what_is_taken_in() -> None:
    """By side, unit, keys, seqs, and the cut; the receiver stores it as its own."""
    store = TupleStore(KeyBand(0, 0))
    for number in (0, 2, 1, 4, 3, 5):
        store.append(batch_of(20, first=20 * number))
        store.settle()
    piece = StateMigration(4, JoinSide.LEFT, 0, 1, (-3, 4), (10, 90))
    all_rows = rows(list(store.batches))
    expected_rows = [row for row in all_rows if -3 <= row[0] <= 4 and 10 <= row[1] <= 90 and row[1] < 77]  # type: ignore[operator]
    (batches,) = store.extract([MigrationCut(piece, 77)])
    parts = encode_copy(piece, store.batches[0].schema, batches)
    messages = [Message(offset, arrow_bytes(part)) for offset, part in enumerate(parts)]
    imported = import_copy(Cutover(piece, 0, len(parts)), messages)
    assert imported is not None
    assert rows([imported]) == [(*row[:2], 1, *row[3:]) for row in expected_rows]
    assert store.drop([MigrationCut(piece, 77)]) == [len(expected_rows)]
    assert len(store) == len(all_rows) - len(expected_rows)
    full_cut = MigrationCut(StateMigration(5, JoinSide.LEFT, 0, 1, (LEAST, GREATEST)), GREATEST)
    assert rows([*store.extract([full_cut])[0], *batches]) == all_rows
    assert store.drop([MigrationCut(piece, 77)]) == [0]
    with pytest.raises(MigrationCopyError, match=f"hold {len(parts) - 1} of {len(parts)} parts|hold 0 of its parts"):
        import_copy(Cutover(piece, 0, len(parts) - 1), messages[:-1])


def test_a_piece_without_tuples_is_a_message_too() -> None:
    """So that it is known to have been copied."""
    piece = StateMigration(4, JoinSide.LEFT, 0, 1, (0, 0))
    (part,) = encode_copy(piece, batch_of(1).schema, ())
    assert import_copy(Cutover(piece, 0, 1), [Message(0, arrow_bytes(part))]) is None
