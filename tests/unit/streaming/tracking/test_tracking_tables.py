"""Both layouts behind one interface: early acks, ranges, retries, sweeping, changes of the circle, snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.tracking.acker.table import AckTable, Layout
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError
from springline.spark_jobs.streaming.tracking.ids import root_edges
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import root_id

THREE = AckerRing.of(range(3))
RANGES = ((3, 1000, 400, 1), (3, 2000, 1, 700), (4, 0, 3, 5000), (4, 7, 1, 1), (5, 9, 9000, 1))
every_range = pytest.mark.parametrize("root_range", RANGES)


@pytest.fixture(params=["slots", "dense"])
def table(request: pytest.FixtureRequest) -> AckTable:
    return AckTable(request.param, 1, THREE)


def own(root_range: tuple[int, int, int, int], circle: AckerRing = THREE, acker: int = 1) -> np.ndarray:
    """An acker's roots of a range, one by one."""
    partition, offset, messages, rows = root_range
    names = [root_id(partition, offset + step, row) for step in range(messages) for row in range(rows)]
    ids = np.array(names, np.uint64)
    return ids[circle.owners_of(ids) == acker]


def values(ids: np.ndarray) -> np.ndarray:
    return root_edges(ids, 1)


def in_bytes(table: AckTable) -> bytes:
    table._check()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.snapshot().schema) as writer:
        writer.write_batch(table.snapshot())
    return bytes(sink.getvalue())


def shuffled(ids: np.ndarray, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).permutation(ids)


@every_range
def test_a_range_registers_the_roots_that_are_the_ackers(table: AckTable, root_range: Any) -> None:
    ids = own(root_range)
    table.register_range(*root_range, values(ids), 1, 8)
    records = table.records()
    assert records.roots.tolist() == ids.tolist()
    assert records.values.tolist() == values(ids).tolist()
    assert records.registered.all()
    assert set(records.attempts) | set(records.ticks) <= {1, 8}
    assert table.in_flight == ids.size
    table._check()


def test_a_row_that_a_range_does_not_have_is_another_root(table: AckTable) -> None:
    """Row 1 of messages that are one root each, and the row after the last of a message."""
    table.register_range(3, 0, 60, 1, np.uint64(5), 1, 3)
    table.register_range(4, 0, 1, 60, np.uint64(5), 1, 3)
    registered_roots = table.records().roots
    others = [
        *(root + 1 for root in registered_roots.tolist() if root < root_id(4, 0)),
        *(root_id(4, 0, row) for row in (60, 4156)),
    ]
    ids = np.array(others, np.uint64)
    table.ack(ids, 1, np.uint64(5), 4)
    assert (table.completed_count, table.in_flight) == (0, registered_roots.size + ids.size)


@every_range
def test_acks_that_come_before_their_registration_wait_for_it(table: AckTable, root_range: Any) -> None:
    ids = own(root_range)
    table.ack(ids[::3], 1, values(ids)[::3], 7)
    table.ack(ids[1::3], 1, np.uint64(6), 7)
    assert table.completed_count == 0
    table.register_range(*root_range, values(ids), 1, 8)
    assert sorted(table.drain_completed().roots.tolist()) == ids[::3].tolist()
    rest = np.setdiff1d(ids, ids[::3])
    assert table.records().roots.tolist() == rest.tolist()
    table.ack(ids[1::3], 1, values(ids)[1::3] ^ np.uint64(6), 7)
    table.ack(ids[2::3], 1, values(ids)[2::3], 7)
    assert table.drain_completed().ticks.tolist() == [8] * rest.size
    assert table.in_flight == 0
    table._check()


def test_roots_without_any_tuple_are_complete_at_once(table: AckTable) -> None:
    ids = own((3, 0, 300, 1))
    table.register_range(3, 0, 300, 1, ids % 2, 1, 4)
    assert table.drain_completed().roots.tolist() == ids[ids % 2 == 0].tolist()
    table.register_range(3, 300, 300, 1, 0, 1, 4)
    assert table.drain_completed().roots.tolist() == own((3, 300, 300, 1)).tolist()


def test_an_ack_of_a_retry_ends_the_first_attempt_whichever_comes_first(table: AckTable) -> None:
    root_range = (3, 0, 60, 1)
    ids = own(root_range)
    table.ack(ids[:3], 2, np.uint64(8), 5)
    table.register_range(*root_range, values(ids), 1, 1)
    table.ack(np.repeat(ids[:6], 2), np.tile([1, 2], 6), np.repeat(values(ids)[:6], 2), 6)
    assert table.completed_count == 0
    assert table.stale == 9
    records = table.records()
    assert records.attempts.tolist() == [2] * 6 + [1] * (ids.size - 6)
    assert records.registered.tolist() == [False] * 6 + [True] * (ids.size - 6)
    table._check()


def test_a_retry_of_a_range_is_registered_by_range(table: AckTable) -> None:
    root_range = (3, 0, 60, 1)
    ids = own(root_range)
    table.register_range(*root_range, np.uint64(5), 1, 1)
    table.register_range(*root_range, np.uint64(9), 2, 2)
    table.ack(ids, 1, np.uint64(5), 3)
    assert (table.completed_count, table.in_flight, table.stale) == (0, ids.size, ids.size)
    table.ack(ids, 2, np.uint64(9), 3)
    assert table.completed_count == ids.size


def test_lows_are_the_first_offsets_that_are_not_complete(table: AckTable) -> None:
    first = own((3, 100, 300, 1))
    assert table.low_watermarks() == {}
    table.register_range(3, 400, 300, 1, np.uint64(5), 1, 1)
    table.register_range(3, 100, 300, 1, np.uint64(5), 1, 1)
    table.register_range(7, 11, 1, 9000, np.uint64(5), 1, 1)
    table.ack(own((2, 5, 60, 1)), 1, np.uint64(5), 1)
    assert table.low_watermarks() == {3: int(first[0]) >> 16 & 0xFFFF, 7: 11}
    table.ack(first[:40], 1, np.uint64(5), 1)
    assert table.low_watermarks()[3] == int(first[40]) >> 16 & 0xFFFF
    table.register(first[:1], 2, np.uint64(5), 1)
    assert table.low_watermarks()[3] == int(first[0]) >> 16 & 0xFFFF


def history(layout: Layout, seed: int) -> AckTable:
    """The same records by different ways."""
    table, random = AckTable(layout, 1, THREE), np.random.default_rng(seed)
    calls: list[Any] = []
    for root_range in RANGES:
        ids = own(root_range)
        table.register_range(*root_range, values(ids), 1, 8)
        calls += [(part, 1, values(part)) for part in np.array_split(shuffled(ids[::3], seed), 4)]
        calls += [(part, 1, np.uint64(9)) for part in np.array_split(shuffled(ids[1::3], seed), 3)]
    calls += [(own((9, 0, 50, 1)), 5, np.uint64(77))]
    for index in random.permutation(len(calls)):
        table.ack(*calls[index], 9)
    table.register(own((10, 0, 50, 1)), 2, np.uint64(3), 4)
    return table


def test_tables_with_the_same_records_have_the_same_bytes_whatever_their_history() -> None:
    tables = [history(layout, seed) for layout in ("slots", "dense") for seed in (1, 2)]
    copies = [AckTable.of(tables[0].snapshot(), layout, 1, THREE) for layout in ("slots", "dense")]
    assert len({in_bytes(table) for table in [*tables, *copies]}) == 1


def test_a_table_made_from_a_snapshot_goes_on_as_the_one_that_wrote_it() -> None:
    before = history("dense", 1)
    after = AckTable.of(before.snapshot(), "dense", 1, THREE)
    assert after.nbytes < 1.5 * before.nbytes
    for table in (before, after):
        table.drain_completed()
        for root_range in RANGES:
            ids = own(root_range)
            table.ack(ids[::-1], 1, values(ids)[::-1], 10)
    assert in_bytes(before) == in_bytes(after)
    completed = [sorted(zip(*table.drain_completed(), strict=True)) for table in (before, after)]
    assert completed[0] == completed[1] != []


def test_records_of_other_ackers_and_of_two_slices_survive_a_snapshot() -> None:
    table = AckTable("dense", 1, THREE)
    for acker, tick in ((1, 3), (2, 3), (1, 4)):
        ids = own((3, tick, 1, 900), acker=acker)
        half = own((3, 7, 1, 900), acker=acker)[100 * (tick - 3) : 100 * (tick - 2)]
        table.register(np.concatenate([ids, half]), 1, np.uint64(5), tick)
    assert in_bytes(AckTable.of(table.snapshot(), "dense", 1, THREE)) == in_bytes(table)


def test_dense_takes_little_more_than_eight_bytes_a_root() -> None:
    table = AckTable("dense", 1, THREE)
    table.register_range(3, 0, 100_000, 1, np.uint64(5), 1, 1)
    for message in range(20):
        table.register_range(4, message, 1, 5000, np.uint64(5), 1, 1)
    assert table.nbytes <= 8.5 * table.in_flight
    table.ack(own((3, 0, 100_000, 1)), 1, np.uint64(5), 2)
    assert table.nbytes <= 8.5 * table.in_flight + 2560


def test_a_range_that_contradicts_itself_is_refused(table: AckTable) -> None:
    with pytest.raises(InvalidUpdateError, match="4 values for"):
        table.register_range(3, 0, 60, 1, [1, 2, 3, 4], 1, 1)
    with pytest.raises(InvalidUpdateError, match="slice"):
        table.register_range(3, 0, 60, 1, 5, 1, 2**25)
    with pytest.raises(InvalidUpdateError, match="attempt"):
        table.register_range(3, 0, 60, 1, 5, 0, 1)
    with pytest.raises(InvalidRootError, match="partition 4096"):
        table.register_range(4096, 0, 60, 1, 5, 1, 1)
    with pytest.raises(InvalidRootError):
        table.register_range(0, 2**36 - 30, 60, 1, 5, 1, 1)
    assert table.in_flight == 0
