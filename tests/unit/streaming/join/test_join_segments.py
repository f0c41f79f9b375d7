"""Segments of stored tuples: merged and cleaned while pieces leave and return; nothing is lost, no step is large."""

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
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor
from springline.spark_jobs.streaming.join.task.migration_select import MigrationCut, Selection
from springline.spark_jobs.streaming.join.task.segments import Segment, bytes_of
from springline.spark_jobs.streaming.join.task.store import Shape, TupleStore
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, SEQ_HASHES, JoinSide, KeyBand, StateMigration
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from tests.support.joins.join_pieces import mask_of

SHAPE = Shape(segment=8_000, fanout=3, garbage=4)
EVERYTHING = StateMigration(0, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))
EQUAL, BAND = KeyBand(0, 0), KeyBand(-2, 3)
Row = tuple[int, int, int, str | None]


def batch_of(keys: Iterable[int], first: int, unit: int = 0) -> pa.RecordBatch:
    """Tuples of a unit with texts, some of them null."""
    keys = list(keys)
    seqs = list(range(first, first + len(keys)))
    texts = [None if seq % 5 == 0 else "t" * (seq % 4) for seq in seqs]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.int64()), "seq": pa.array(seqs, pa.int64()),
            "unit": pa.array([unit] * len(keys), pa.uint8()), "t": pa.array(texts, pa.string()),
        }
    )  # fmt: skip


def rows(store: TupleStore) -> list[Row]:
    """All tuples of unit 0, as extraction finds them."""
    (batches,) = store.extract([MigrationCut(EVERYTHING, GREATEST)])
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())  # type: ignore[misc]


def in_bytes(store: TupleStore) -> tuple[str, list[bytes], list[bytes]]:
    """All of a store as it lies in a state."""
    return json.dumps(store.layout), [arrow_bytes(each) for each in store.batches], [*map(arrow_bytes, store.dead)]


def reread(store: TupleStore, band: KeyBand) -> TupleStore:
    """A store as another process reads it."""
    layout, *parts = in_bytes(store)
    batches, dead = (tuple(pa.ipc.open_stream(each).read_next_batch() for each in part) for part in parts)
    return TupleStore.of(batches, dead, json.loads(layout), band, SHAPE)


def candidates(store: TupleStore, keys: Iterable[int]) -> list[tuple[int, int, int]]:
    """What the index has for keys, in its order: part, probe and position."""
    probes = np.sort(np.array([*keys], np.int64))
    return [
        (part.start.part, int(probe), int(place) + store.origin)
        for part in store.index.candidates(probes, CandidateCursor(), 7)
        for probe, place in zip(part.probes, part.places, strict=True)
    ]


def check(store: TupleStore) -> None:
    """Positions ascend, and counts are right."""
    for one, other in pairwise(store.segments):
        assert one.end <= other.first
    assert not store.segments or store.segments[-1].end <= store.end
    (batches,) = store.extract([MigrationCut(EVERYTHING, GREATEST)])
    assert sum(batch.num_rows for batch in batches) == store.stored[0]


KEYS = {
    "evenly": lambda chance, number: chance.randrange(-(1 << 62), 1 << 62),
    "one key": lambda chance, number: 7,
    "ascending": lambda chance, number: number * 1000 + chance.randrange(1500),
    "a few": lambda chance, number: chance.choice([LEAST, -3, 0, 0, 0, 5, GREATEST]),
}


@pytest.mark.parametrize("band", [EQUAL, BAND])
@pytest.mark.parametrize("kind", KEYS)
def test_merging_loses_nothing_and_writes_each_tuple_a_few_times(kind: str, band: KeyBand) -> None:
    """Segments that are large enough stay as they are; of the others there are few."""
    chance, store, batches, written_bytes = random.Random(kind), TupleStore(band, SHAPE), [], 0
    large: set[int] = set()
    for number in range(300):
        keys = [KEYS[kind](chance, number) for _ in range(chance.choice([0, 10, 20, 40]))]
        batches.append(batch_of(keys, 1000 * number))
        before = {id(batch) for batch in store.batches}
        store.append(batches[-1])
        store.settle()
        new = sum(bytes_of(batch) for batch in store.batches if id(batch) not in before)
        assert new <= 2 * SHAPE.segment + bytes_of(batches[-1])
        written_bytes += new
        assert large <= {id(batch) for batch in store.batches}
        large = {id(segment.batch) for segment in store.segments if segment.bytes >= SHAPE.segment}
        if number % 20 == 0:
            check(store)
    check(store)
    everything = pa.Table.from_batches(batches)
    assert rows(store) == sorted(tuple(row.values()) for row in everything.to_pylist())
    assert store.bytes == sum(map(bytes_of, batches))
    assert written_bytes <= 6 * store.bytes
    assert len(store.segments) <= store.bytes / SHAPE.segment + 12
    probes = sorted({0, 7, LEAST, GREATEST, *everything["key"].to_pylist()[::97]})
    actual = {(probes[probe], position) for _, probe, position in candidates(store, probes)}
    low, high = band.low or 0, band.high or 0
    keys_by_position = dict(enumerate(everything["key"].to_pylist(), 1))
    matching = {(probe, at) for at, key in keys_by_position.items() for probe in probes if low <= key - probe <= high}
    assert actual == matching


@pytest.mark.parametrize("band", [EQUAL, BAND])
def test_a_store_that_is_read_again_goes_on_to_the_same_bytes(band: KeyBand) -> None:
    """At any round, with dropped and expired tuples; its index has the same candidates, in the same order."""
    chance = random.Random(2)
    store = reread_store = TupleStore(band, SHAPE)
    reread_store = reread(store, band)
    dropped = 0
    for number in range(200):
        for each in (store, reread_store):
            each.begin_round()
        if number % 9 == 0:
            cuts = [MigrationCut(replace(EVERYTHING, buckets=tuple(chance.sample(range(BUCKETS), 900))), 100 * number)]
            assert store.drop(cuts) == reread_store.drop(cuts)
        if number % 20 == 19:
            for each in (store, reread_store):
                each.expire(100 * (number - 60), purging=True)
        keys = [chance.randrange(500) for _ in range(25)]
        for each in (store, reread_store):
            each.append(batch_of(keys, 100 * number, number % 2))
        reread_store = reread(reread_store, band) if chance.random() < 0.5 else reread_store
        for each in (store, reread_store):
            each.settle()
        assert in_bytes(store) == in_bytes(reread_store)
        dropped += bool(store.dead)
        reread_store = reread(reread_store, band) if chance.random() < 0.5 else reread_store
        if number % 10 == 0:
            assert candidates(store, range(500)) == candidates(reread_store, range(500))
    assert dropped > 20


def test_a_store_in_memory_is_taken_for_that_of_its_own_state_alone() -> None:
    """Another one with as many rows has other keys; the batches of the state, which may be mapped, replace its own."""
    store, other = TupleStore(EQUAL, SHAPE), TupleStore(EQUAL, SHAPE)
    store.append(batch_of([1, 2], 0))
    other.append(batch_of([1, 3], 0))
    mapped = tuple(pa.ipc.open_stream(arrow_bytes(batch)).read_next_batch() for batch in store.batches)
    assert store.has_state(json.loads(json.dumps(store.layout)), mapped, ())
    assert store.batches[0] is mapped[0] and candidates(store, [1, 2]) == [(0, 0, 1), (0, 1, 2)]
    assert not store.has_state(other.layout, other.batches, ())


@pytest.mark.parametrize("band", [EQUAL, BAND])
@pytest.mark.parametrize("seed", range(2))
def test_pieces_leave_at_once_and_come_back_beside_what_is_dropped(seed: int, band: KeyBand) -> None:
    """Of what was there at the cut; not what came later with the same keys, be it an earlier tuple that returns."""
    chance, store = random.Random(seed), TupleStore(band, SHAPE)
    expected_rows: dict[int, Row] = {}
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
            counts = store.drop(cuts)
            for cut, copy, count in zip(cuts, copies, counts, strict=True):
                expected_seqs = {
                    seq for seq, (key, *_) in expected_rows.items()
                    if seq < cut.before_seq and mask_of(cut.migration, np.array([key]), np.array([seq]))[0]
                }  # fmt: skip
                assert {seq for batch in copy for seq in batch.column("seq").to_pylist()} == expected_seqs
                assert count == len(expected_seqs) == sum(batch.num_rows for batch in copy)
                expected_rows = {seq: row for seq, row in expected_rows.items() if seq not in expected_seqs}
                moved_batches.append(copy)
            check(store)
        if moved_batches and chance.random() < 0.3:
            returned_batches = moved_batches.pop(chance.randrange(len(moved_batches)))
            for batch in returned_batches:
                store.append(batch)
                expected_rows |= {row["seq"]: tuple(row.values()) for row in batch.to_pylist()}
        batch = batch_of(keys, first)
        expected_rows |= {row["seq"]: tuple(row.values()) for row in batch.to_pylist()}
        store.append(batch)
        store.settle()
        assert len(store) == len(expected_rows)
    check(store)
    assert rows(store) == sorted(expected_rows.values())
    assert len(candidates(store, [3])) == sum(band.low <= row[0] - 3 <= band.high for row in expected_rows.values())


def test_a_unit_gives_only_its_own_tuples() -> None:
    """Others in the task have the same keys."""
    store = TupleStore(EQUAL, SHAPE)
    store.append(batch_of(range(9), 0, unit=0))
    store.append(batch_of(range(9), 10, unit=2))
    piece = replace(EVERYTHING, giver=2, keys=(3, 5))
    (batches,) = store.extract([MigrationCut(piece, GREATEST)])
    assert batches[0].column("seq").to_pylist() == [13, 14, 15]
    assert store.drop([MigrationCut(piece, GREATEST)]) == [3]
    assert store.stored[[0, 2]].tolist() == [9, 6]
    assert [position for *_, position in candidates(store, [3, 6])] == [4, 16, 7]


@pytest.mark.parametrize("band", [EQUAL, BAND])
def test_what_is_dropped_vanishes_while_rounds_go_on(band: KeyBand) -> None:
    """A segment a round, as long as there is much of it; the places of all that has vanished are used up no more."""
    store = TupleStore(band, SHAPE)
    for number in range(100):
        store.append(batch_of([37 * at for at in range(number, 1_000 + number, 30)], 1000 * number))
        store.settle()
    half = replace(EVERYTHING, buckets=tuple(range(0, BUCKETS, 2)))
    before = len(store)
    (dropped_count,) = store.drop([MigrationCut(half, GREATEST)])
    assert before - dropped_count == len(store)
    remaining = rows(store)
    for _ in range(60):
        ids = {id(segment) for segment in store.segments}
        store.settle()
        assert sum(segment.bytes for segment in store.segments if id(segment) not in ids) <= 4 * SHAPE.segment
    assert sum(segment.dead_rows for segment in store.segments) * 4 <= len(store)
    assert rows(store) == remaining
    assert store.drop([MigrationCut(EVERYTHING, GREATEST)]) == [len(remaining)]
    assert not store.segments and not store.dead and not store.bytes and not candidates(store, range(40_000))


@pytest.mark.parametrize("band", [EQUAL, BAND])
def test_what_has_expired_is_removed_from_the_front_and_from_between(band: KeyBand) -> None:
    """A copy that came later has earlier tuples; what is asked for meanwhile is found."""
    store = TupleStore(band, Shape(segment=1))
    for first in (100, 200, 0, 300):
        store.append(batch_of([7, 8], first))
    store.expire(150, purging=False)
    assert (len(store), store.expired, store.purged) == (8, 150, 0)
    store.expire(150, purging=True)
    assert [segment.least for segment in store.segments] == [200, 300]
    assert len(store) == 4 and [position for *_, position in candidates(store, [7])] in ([7, 3], [3, 4, 7, 8])
    store.expire(1_000, purging=True)
    assert not store.segments and not candidates(store, [7])
    store.append(batch_of([7], 1_000))
    assert [position for *_, position in candidates(store, [7])] == [9]


@pytest.mark.parametrize("seed", range(3))
def test_one_pass_finds_the_tuples_of_all_pieces(seed: int) -> None:
    """Whatever pieces are asked for by: buckets of blocks, keys, parts, seqs; each tuple is of one that means it."""
    chance = random.Random(seed)
    keys = [chance.choice([chance.randrange(-50, 50), LEAST, GREATEST]) for _ in range(2_000)]
    segment = Segment(1, batch_of(keys, 5))
    cuts = []
    for _ in range(8):
        low, high = sorted(chance.choices([LEAST, -20, 0, 0, 20, GREATEST], k=2))
        hot = bucket_of([chance.randrange(-50, 50) for _ in range(20)], block := chance.choice([0, 3])).tolist()
        piece = replace(
            EVERYTHING, keys=(low, high), buckets=tuple(hot) if chance.random() < 0.7 else (), block=block,
            excluded_keys=tuple(chance.sample(range(-50, 50), chance.choice([0, 9]))), salt=chance.choice([0, 4]),
            part=chance.choice([(0, SEQ_HASHES), (SEQ_HASHES // 4, SEQ_HASHES // 2)]),
            seqs=chance.choice([(0, GREATEST), (300, 900)]),
        )  # fmt: skip
        cuts.append(MigrationCut(piece, chance.choice([1_500, GREATEST])))
    masks = np.array(
        [mask_of(cut.migration, segment.keys, segment.seqs) & (segment.seqs < cut.before_seq) for cut in cuts]
    )
    indices, which = Selection(cuts).live_rows(segment)
    assert indices.tolist() == np.flatnonzero(masks.any(axis=0)).tolist()
    assert all(masks[at, row] for row, at in zip(indices.tolist(), which.tolist(), strict=True))
    segment.mark_dead(indices[::2])
    assert Selection(cuts).live_rows(segment)[0].tolist() == indices[1::2].tolist()
