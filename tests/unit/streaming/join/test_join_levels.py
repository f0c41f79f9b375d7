"""Levels of stored tuples: merged step by step, while pieces leave and return; nothing is lost, no step is large."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.unit.compaction import Shape
from springline.spark_jobs.streaming.join.unit.migration_select import MigrationCut, Selection
from springline.spark_jobs.streaming.join.unit.segments import Segment
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun, bytes_of, sorted_run
from springline.spark_jobs.streaming.join.unit.store import TupleStore
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, SEQ_HASHES, JoinSide, StateMigration
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from tests.support.joins.join_pieces import mask_of

SHAPE = Shape(segment=4_000, young=2_000, times=3, work=30)
EVERYTHING = StateMigration(0, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))
Rows = list[tuple[int, int, str | None]]


def batch_of(keys: Iterable[int], first: int) -> pa.RecordBatch:
    """Tuples with texts, some of them null."""
    keys = list(keys)
    seqs = list(range(first, first + len(keys)))
    texts = [None if seq % 5 == 0 else "t" * (seq % 4) for seq in seqs]
    return pa.record_batch(
        {"key": pa.array(keys, pa.int64()), "seq": pa.array(seqs, pa.int64()), "t": pa.array(texts, pa.string())}
    )


def run_of(keys: Iterable[int], first: int) -> SortedRun | None:
    """The same as a run."""
    return sorted_run([batch_of(keys, first)])


def rows(store: TupleStore) -> Rows:
    """All that is not hidden, as extraction finds it."""
    (batches,) = store.extract([MigrationCut(EVERYTHING, GREATEST)])
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())  # type: ignore[misc]


def in_bytes(store: TupleStore) -> tuple[str, list[bytes]]:
    """All of a store as it lies in a state."""
    return json.dumps(store.layout), [arrow_bytes(batch) for batch in store.batches]


def reread(store: TupleStore) -> TupleStore:
    """A store as another process reads it."""
    layout, batches = in_bytes(store)
    reread_batches = tuple(pa.ipc.open_stream(each).read_next_batch() for each in batches)
    return TupleStore.of(reread_batches, json.loads(layout), {}, store.shape)


def check(store: TupleStore) -> None:
    """Segments of a level follow each other, none is too large or across the cursor, and counts are right."""
    for level in (*store.deep.incoming, *store.deep.levels):
        for segment in level:
            assert segment.least <= segment.greatest
            assert segment.stored_bytes <= store.shape.segment + 100  # a row more than an even share
        for one, other in pairwise(level):
            assert one.greatest < other.least
    for level, cursor in zip(store.deep.levels, store.deep.cursors, strict=True):
        assert cursor is None or not any(each.least < cursor <= each.greatest for each in level)
    (batches,) = store.extract([MigrationCut(EVERYTHING, GREATEST)])
    assert sum(batch.num_rows for batch in batches) == len(store)
    assert sum(map(bytes_of, batches)) == store.bytes


KEYS = {
    "evenly": lambda chance, number: chance.randrange(-(1 << 62), 1 << 62),
    "one key": lambda chance, number: 7,
    "ascending": lambda chance, number: number * 1000 + chance.randrange(1500),
    "a few": lambda chance, number: chance.choice([LEAST, -3, 0, 0, 0, 5, GREATEST]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_merging_in_steps_loses_nothing_and_reads_and_writes_a_bounded_part_a_round(kind: str) -> None:
    """What comes of it is what merging all at once gives; over all rounds, a tuple is written a few times a level."""
    chance, store, batches, written_bytes = random.Random(kind), TupleStore(shape=SHAPE), [], 0
    for number in range(300):
        keys = [KEYS[kind](chance, number) for _ in range(chance.choice([0, 10, 20, 40]))]
        batches.append(batch_of(keys, 1000 * number))
        before = {id(batch) for batch in store.batches}
        store = store.with_run(sorted_run([batches[-1]])).settle()
        new = sum(bytes_of(batch) for batch in store.batches if id(batch) not in before)
        # Young runs; then so many times what came, and the step that goes beyond that: two segments and what goes in.
        most = SHAPE.young + 1_000 + SHAPE.work * bytes_of(batches[-1]) + 4 * SHAPE.segment
        assert new <= most
        written_bytes += new
        if number % 20 == 0:
            check(store)
    check(store)
    expected_run = sorted_run(batches)
    assert expected_run is not None
    assert rows(store) == [tuple(row.values()) for row in expected_run.batch.to_pylist()]
    levels = len(store.deep.levels)
    assert levels >= 3
    assert written_bytes <= expected_run.bytes * (5 + (2 + SHAPE.times) * levels)
    assert len(store.segments) <= 4 + 2 * levels + 3 * expected_run.bytes / SHAPE.segment


def test_a_store_that_is_read_again_goes_on_to_the_same_bytes() -> None:
    """At any round, with cursors, hidden tuples, and parts that were merged away."""
    chance = random.Random(2)
    store = reread_store = TupleStore(shape=SHAPE)
    partial = hidden = 0
    for number in range(200):
        keys = [chance.randrange(5_000) for _ in range(25)]
        store, reread_store = (each.with_run(run_of(keys, 100 * number)) for each in (store, reread_store))
        if number % 9 == 0:
            cuts = [MigrationCut(replace(EVERYTHING, buckets=tuple(chance.sample(range(BUCKETS), 90))), 100 * number)]
            (store, one), (reread_store, other) = (each.without(cuts) for each in (store, reread_store))
            assert one == other
        store, reread_store = (
            store.settle(),
            reread(reread_store.settle() if chance.random() < 0.5 else reread(reread_store).settle()),
        )
        assert in_bytes(store) == in_bytes(reread_store)
        partial += any(segment.start for segment in store.segments)
        hidden += any(segment.hidden for segment in store.segments)
    assert partial > 20
    assert hidden > 20


@pytest.mark.parametrize("seed", range(4))
def test_pieces_leave_at_once_and_come_back_beside_what_is_hidden(seed: int) -> None:
    """Of what was there at the cut; not what came later with the same keys, be it an earlier tuple that returns."""
    chance, store = random.Random(seed), TupleStore(shape=SHAPE)
    expected_rows: dict[int, tuple[int, int, str | None]] = {}
    moved_batches: list[list[pa.RecordBatch]] = []
    for number in range(120):
        first = 100 * number
        keys = [chance.randrange(60) for _ in range(chance.choice([5, 25]))]
        if number % 4 == 3:
            buckets = list(range(BUCKETS))
            chance.shuffle(buckets)
            pieces = [
                replace(EVERYTHING, id=1, buckets=tuple(buckets[:900]), excluded_keys=(3, 4)),
                replace(EVERYTHING, id=2, buckets=tuple(buckets[900:1500]), excluded_keys=(3, 4)),
                replace(EVERYTHING, id=3, keys=(3, 3), part=(0, SEQ_HASHES // 3), salt=8),
                replace(EVERYTHING, id=4, keys=(3, 3), part=(SEQ_HASHES // 3, SEQ_HASHES // 2), salt=8),
            ]
            cuts = [MigrationCut(piece, first - chance.choice([0, 500])) for piece in pieces]
            copies = store.extract(cuts)
            store, counts = store.without(cuts)
            for cut, copy, count in zip(cuts, copies, counts, strict=True):
                expected_seqs = {
                    seq for seq, (key, _, _) in expected_rows.items()
                    if seq < cut.before_seq and mask_of(cut.migration, np.array([key]), np.array([seq]))[0]
                }  # fmt: skip
                assert {seq for batch in copy for seq in batch.column("seq").to_pylist()} == expected_seqs
                assert count == len(expected_seqs) == sum(batch.num_rows for batch in copy)
                expected_rows = {seq: row for seq, row in expected_rows.items() if seq not in expected_seqs}
                moved_batches.append(copy)
            check(store)
        if moved_batches and chance.random() < 0.3:
            returned_batches = moved_batches.pop(chance.randrange(len(moved_batches)))
            store = store.with_copy(sorted_run(returned_batches))
            expected_rows |= {
                row["seq"]: tuple(row.values()) for batch in returned_batches for row in batch.to_pylist()
            }
        batch = batch_of(keys, first)
        expected_rows |= {row["seq"]: tuple(row.values()) for row in batch.to_pylist()}
        store = store.with_run(sorted_run([batch])).settle()
        assert len(store) == len(expected_rows)
    check(store)
    assert rows(store) == sorted(expected_rows.values())


def test_what_is_hidden_vanishes_while_rounds_go_on() -> None:
    """Where much of a segment is hidden at once, one a round; the rest when enough switches have passed; then cuts."""
    store = TupleStore(shape=SHAPE)
    for number in range(100):
        store = store.with_run(run_of([37 * at for at in range(number, 1_000 + number, 30)], 1000 * number)).settle()
    half = replace(EVERYTHING, buckets=tuple(range(0, BUCKETS, 2)))
    before = len(store)
    store, (dropped_count,) = store.without([MigrationCut(half, GREATEST)])
    assert before - dropped_count == len(store)
    assert sum(segment.stored_bytes for segment in store.segments) > store.bytes * 3 / 2
    rewritten_segments = 0
    for _ in range(200):
        run_ids = {id(segment.run) for segment in store.segments}
        store = store.settle()
        new = [segment for segment in store.segments if id(segment.run) not in run_ids]
        assert sum(segment.stored_bytes for segment in new) <= 3 * SHAPE.segment
        rewritten_segments += len(new)
    assert rewritten_segments > 5
    assert sum(segment.stored_bytes for segment in store.segments) <= store.bytes * 9 / 8
    few = [replace(EVERYTHING, buckets=(bucket,)) for bucket in range(1, 101, 2)]
    for piece in few:
        store, _ = store.without([MigrationCut(piece, GREATEST)])
        store = store.settle()
    for _ in range(200):
        store = store.settle()
    assert len({cut.number for cut in store.cuts}) <= 16
    store, _ = store.without([MigrationCut(EVERYTHING, GREATEST)])
    assert not store.segments
    assert not store.cuts
    assert len(store) == store.bytes == 0


@pytest.mark.parametrize("seed", range(6))
def test_one_pass_finds_the_tuples_of_all_pieces(seed: int) -> None:
    """Whatever pieces are asked for by: buckets of blocks, keys, parts, seqs; each tuple is of one that means it."""
    chance = random.Random(seed)
    run = run_of([chance.choice([chance.randrange(-50, 50), LEAST, GREATEST]) for _ in range(2_000)], 5)
    assert run is not None
    cuts = []
    for number in range(8):
        low, high = sorted(chance.choices([LEAST, -20, 0, 0, 20, GREATEST], k=2))
        hot = bucket_of([chance.randrange(-50, 50) for _ in range(20)], block := chance.choice([0, 3])).tolist()
        piece = replace(
            EVERYTHING, keys=(low, high), buckets=tuple(hot) if chance.random() < 0.7 else (), block=block,
            excluded_keys=tuple(chance.sample(range(-50, 50), chance.choice([0, 9]))), salt=chance.choice([0, 4]),
            part=chance.choice([(0, SEQ_HASHES), (SEQ_HASHES // 4, SEQ_HASHES // 2)]),
            seqs=chance.choice([(0, GREATEST), (300, 900)]),
        )  # fmt: skip
        cuts.append(MigrationCut(piece, chance.choice([1_500, GREATEST]), number))
    masks = [mask_of(cut.migration, run.keys, run.seqs) & (run.seqs < cut.before_seq) for cut in cuts]
    sample = np.sort(np.array(chance.sample(range(2_000), 500)))
    selection = Selection(cuts)
    for since in (0, 4):
        expected_mask = np.array(masks) & (np.arange(8) >= since)[:, None]
        indices, which = selection.rows(run, 100, 1_900, since)
        expected = np.flatnonzero(expected_mask[:, 100:1_900].any(axis=0)) + 100
        assert indices.tolist() == expected.tolist()
        if len({cut.migration.block for cut in cuts if cut.migration.buckets}) < 2:
            assert all(expected_mask[at, row] for row, at in zip(indices.tolist(), which.tolist(), strict=True))
        assert selection.matches(run, sample, since).tolist() == expected_mask.any(axis=0)[sample].tolist()


def test_rows_are_taken_from_the_front_of_a_segment() -> None:
    """Hidden ones are counted with the part that they are in."""
    run = run_of(range(100), 0)
    assert run is not None
    cuts = [MigrationCut(replace(EVERYTHING, keys=(10, 29)), GREATEST, 1)]
    hiding = Selection(cuts)
    hidden_rows, _ = Segment(run).find_rows(hiding, Selection(()))
    segment = Segment(run).with_hidden(hidden_rows, 1)
    assert (len(segment), segment.hidden) == (80, 20)
    batch, remainder = segment.split(20, hiding)
    assert remainder is not None
    assert batch.column("key").to_pylist() == list(range(10))
    assert (len(remainder), remainder.start, remainder.hidden, remainder.least[0]) == (70, 20, 10, 20)
    assert bytes_of(batch) + remainder.bytes == segment.bytes
    batch, remainder = remainder.split(30, hiding)
    assert batch.num_rows == 0
    assert remainder is not None
    assert remainder.layout() == [30, 0, 0, 0]
