"""Stored tuples: segments are merged and cleaned while pieces leave and return; nothing is lost, no step is large.

Their index and the loops that sort and search keys are held against a dictionary and plain numpy.
"""

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
from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.kernels import BLOCK, search_ranges, sort_order
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor
from springline.spark_jobs.streaming.join.task.hash_index import HashIndex
from springline.spark_jobs.streaming.join.task.migration import encode_copy, import_copy
from springline.spark_jobs.streaming.join.task.migration_select import MigrationCut, Selection
from springline.spark_jobs.streaming.join.task.segments import Segment, SegmentTable, bytes_of
from springline.spark_jobs.streaming.join.task.store import Shape, TupleStore
from springline.spark_jobs.streaming.join.task.task import CopyTopic
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    SEQ_HASHES,
    Cutover,
    JoinSide,
    KeyBand,
    StateMigration,
)
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from tests.support.joins.join_tasks import mask_of

SHAPE = Shape(segment=8_000, fanout=3, garbage=4)
EVERYTHING = StateMigration(0, JoinSide.LEFT, 0, 1, (LEAST, GREATEST))
EQUAL, BAND = KeyBand(0, 0), KeyBand(-2, 3)
SOURCE = np.random.default_rng(3)
Row = tuple[int, int, int, str | None, float | None]


def batch_of(keys: Iterable[int], first: int, unit: int = 0) -> pa.RecordBatch:
    """Tuples of a unit that carry a text and a number, either of them null at times."""
    keys = list(keys)
    seqs = list(range(first, first + len(keys)))
    texts = [None if seq % 5 == 0 else "t" * (seq % 4) for seq in seqs]
    numbers = [None if seq % 7 == 0 else seq / 2 for seq in seqs]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.int64()), "seq": pa.array(seqs, pa.int64()),
            "unit": pa.array([unit] * len(keys), pa.uint8()), "t": pa.array(texts, pa.string()),
            "x": pa.array(numbers, pa.float64()),
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
    batches = [batch_of(range(30), 0).slice(3, 20), batch_of(range(10), 101), batch_of([1], 103)]
    batches.append(batch_of(range(50), 200).slice(9))
    segments = [Segment(1, batches[0]), Segment(30, batches[1]), Segment(40, batches[2]), Segment(50, batches[3])]
    table = SegmentTable(segments, 0, segments[-1].end)
    where = SOURCE.integers(0, len(segments), 500).astype(np.int32)
    at = np.array([SOURCE.integers(0, len(segments[one])) for one in where], np.int32)
    columns = table.take_columns(where, at, {"key": "key", "text": "t", "number": "x"})
    expected = [batches[one].slice(int(row), 1).to_pylist()[0] for one, row in zip(where, at, strict=True)]
    for array in columns.values():
        array.validate(full=True)
    assert columns["key"].to_pylist() == [row["key"] for row in expected]
    assert columns["text"].to_pylist() == [row["t"] for row in expected]
    assert columns["number"].to_pylist() == [row["x"] for row in expected]
    assert table.text_sizes(where, at).tolist() == [len(row["t"] or "") for row in expected]
    assert [len(one) for one in table.take_columns(where[:0], at[:0], {"a": "key", "b": "t"}).values()] == [0, 0]


def test_a_copy_is_complete_with_all_of_its_parts_and_may_have_no_tuples() -> None:
    """A piece without tuples is a message too, so that it is known to have been copied."""
    piece, schema = StateMigration(4, JoinSide.LEFT, 0, 1, (0, 0)), batch_of([1], 0).schema
    empty, two = (encode_copy(piece, schema, parts) for parts in ((), [batch_of([1, 2], 0)] * 2))
    assert [import_copy(Cutover(piece, 0, 1), [Message(0, arrow_bytes(part))]) for part in empty] == [None]
    with pytest.raises(MigrationCopyError, match="hold 1 of 2 parts"):
        import_copy(Cutover(piece, 0, 1), [Message(0, arrow_bytes(two[0]))])


def test_copies_that_lie_near_each_other_are_read_at_once() -> None:
    """Of each partition, which is that of the giver's task; each cutover gets the messages at its own offsets."""
    asked = []

    def read_topic(topic: str, partition: int, start: int, end: int) -> list[Message]:
        asked.append((topic, partition, start, end))
        return [Message(offset, b"") for offset in range(start, end)]

    ranges = {0: (0, 5, 7), 1: (1, 0, 2), 2: (2, 3, 5), 3: (0, 0, 4), 4: (2, 500, 501)}
    cutovers = [
        Cutover(StateMigration(number, JoinSide.LEFT, giver, 3, (0, 0)), start, end)
        for number, (giver, start, end) in ranges.items()
    ]
    messages = {each.migration.id: own for each, own in CopyTopic("copies", 2).read(read_topic, cutovers)}
    assert asked == [("copies", 0, 0, 7), ("copies", 0, 500, 501), ("copies", 1, 0, 2)]
    assert {number: [message.offset for message in own] for number, own in messages.items()} == {
        number: list(range(start, end)) for number, (_, start, end) in ranges.items()
    }


def found_places(index: HashIndex, keys: np.ndarray, capacity: int) -> list[list[int]]:
    """The candidates of each key."""
    places: list[list[int]] = [[] for _ in keys]
    for candidates in index.candidates(keys, CandidateCursor(), capacity):
        for probe, place in zip(candidates.probes.tolist(), candidates.places.tolist(), strict=True):
            places[probe].append(place)
    return places


@pytest.mark.parametrize(("seed", "spread", "capacity"), [(1, 50, 7), (2, 3_000, 64), (3, 1 << 62, 1 << 12)])
def test_an_index_says_what_a_dictionary_says(seed: int, spread: int, capacity: int) -> None:
    """Rows are appended, removed one by one and from the oldest on; keys with and without rows are sought."""
    random = np.random.default_rng(seed)
    index, rows_of, place, floor = HashIndex(), dict[int, list[int]](), 1, 0
    for number in range(12):
        keys = random.integers(-spread, spread, int(random.integers(0, 700)))
        index.append(keys, place)
        for key in keys.tolist():
            rows_of.setdefault(key, []).append(place)
            place += 1
        if number % 4 == 2:
            leaving = [(key, rows.pop(len(rows) // 2)) for key, rows in rows_of.items() if rows and key % 3 == 0]
            index.remove(*(np.array(column, np.int64) for column in zip(*leaving, strict=True)))
        if number % 5 == 3:
            floor = place - 400
            index.remove_until(floor)
        probes = np.concatenate([random.permutation(keys)[:100], random.integers(-spread, spread, 100)])
        expected = [[row for row in reversed(rows_of.get(key, [])) if row > floor] for key in probes.tolist()]
        assert found_places(index, probes, capacity) == expected
