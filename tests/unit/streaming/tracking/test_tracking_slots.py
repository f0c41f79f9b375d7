"""The paper's layout: one slot of 20 bytes a root, freed at once; acks in any order and of several attempts."""

from __future__ import annotations

import numpy as np
import pytest

from springline.spark_jobs.streaming.tracking.acker.growable_array import GrowableArray
from springline.spark_jobs.streaming.tracking.acker.slots import SlotTable
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError


def records_of(slots: SlotTable) -> list[tuple[int, ...]]:
    slots._check()
    return [tuple(int(one) for one in row) for row in zip(*slots.records(), strict=True)]


def many(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    roots = random.permutation(count).astype(np.uint64) << np.uint64(16)
    return roots, random.integers(1, 2**63, count, dtype=np.uint64)


def test_a_completed_root_has_the_slice_of_its_registration() -> None:
    slots = SlotTable()
    slots.ack([5], 1, [3], 9)
    slots.register([5], 1, [1], 4)
    assert records_of(slots) == [(5, 1, 1, 4, 2)]
    assert slots.ack([5], 1, [2], 11).ticks.tolist() == [4]


def test_one_buffer_may_hold_several_acks_of_a_root() -> None:
    slots = SlotTable()
    slots.register([5, 6], 1, [1 ^ 2 ^ 4, 8], 1)
    assert slots.ack([5, 6, 5, 5], 1, [1, 8, 2, 4], 1).roots.tolist() == [6, 5]


def test_a_table_holds_what_was_put_in_while_it_grows_and_shrinks() -> None:
    roots, values = many(50_000)
    slots = SlotTable()
    for begin in range(0, roots.size, 7_000):
        slots.register(roots[begin : begin + 7_000], 1, values[begin : begin + 7_000], begin)
    slots._check()
    records = slots.records()
    order = np.argsort(roots)
    assert (records.roots == roots[order]).all()
    assert (records.values == values[order]).all()
    assert (records.ticks == order // 7_000 * 7_000).all()
    full_size = slots.nbytes
    assert slots.ack(roots[:45_000], 1, values[:45_000], 1).roots.tolist() == roots[:45_000].tolist()
    slots._check()
    assert slots.nbytes < full_size / 4
    assert slots.records().roots.tolist() == sorted(roots[45_000:].tolist())


def test_an_array_that_grows_keeps_what_it_holds() -> None:
    """Beyond the room that was reserved for it, too, and over several large pages."""
    column = GrowableArray(np.uint64, 10)
    column.array[:] = range(10)
    for size in (1_000, 600_000, 1_200_000, 9_000_000):
        column.grow(size)
        assert column.array.size == size
        assert column.array[:10].tolist() == list(range(10))
        assert not column.array[10:].any()


@pytest.mark.parametrize("count", [1_000, 12_345, 65_536, 100_000, 123_456])
def test_a_root_takes_at_most_24_bytes_however_many_there_are(count: int) -> None:
    roots, values = many(count)
    slots = SlotTable()
    slots.register(roots, 1, values, 1)
    assert len(slots) == count
    assert slots.nbytes <= 24 * count


def test_an_update_that_contradicts_itself_is_refused() -> None:
    slots = SlotTable()
    for attempt in (0, 64):
        with pytest.raises(InvalidUpdateError, match=f"attempts {attempt}"):
            slots.ack([1], attempt, [1], 1)
    for tick in (-1, 2**25):
        with pytest.raises(InvalidUpdateError, match=f"slices {tick}"):
            slots.ack([1], 1, [1], tick)
    with pytest.raises(InvalidUpdateError, match="3 roots, 2 values"):
        slots.ack([1, 2, 3], 1, [1, 2], 1)
    slots.ack([1], 63, [1], 2**25 - 1)
    assert records_of(slots) == [(1, 63, 0, 2**25 - 1, 1)]
