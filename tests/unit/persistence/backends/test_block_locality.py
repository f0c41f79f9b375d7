"""Which worker sends a file."""

from __future__ import annotations

import pytest

from springline.persistence.backends.alluxio import longest_stretch, sending_worker

BLOCKS = [{"a"}, {"a", "b"}, {"b", "c"}, {"b"}, {"a", "c"}]


@pytest.mark.parametrize(("worker", "blocks"), [("a", 2), ("b", 3), ("c", 1), ("d", 0)])
def test_the_longest_stretch_counts_consecutive_blocks_only(worker: str, blocks: int) -> None:
    """Worker `a` holds three of the five blocks, but only two in a row."""
    assert longest_stretch(BLOCKS, worker) == blocks


@pytest.mark.parametrize(
    ("idle", "sends"),
    [
        (["a", "b", "c"], "b"),
        (["c", "a"], "a"),
        (["d", "c"], "c"),
        (["d", "e"], "d"),
        (["e", "d"], "e"),
        ([], None),
    ],
)
def test_the_idle_one_with_most_consecutive_blocks_sends_else_the_nearest(idle: list[str], sends: str | None) -> None:
    """The nearest idle worker comes first in the list; it sends where no idle one holds anything."""
    assert sending_worker(BLOCKS, idle) == sends


def test_of_two_that_hold_as_many_the_nearer_one_sends() -> None:
    """Both hold the whole file."""
    assert sending_worker([{"far", "near"}] * 3, ["near", "far"]) == "near"


def test_a_file_without_blocks_is_sent_by_the_nearest() -> None:
    """An empty file is nowhere."""
    assert sending_worker([], ["near", "far"]) == "near"
