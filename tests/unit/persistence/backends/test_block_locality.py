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
    ("blocks", "idle", "sends"),
    [
        (BLOCKS, ["a", "b", "c"], "b"),
        (BLOCKS, ["d", "c"], "c"),
        (BLOCKS, ["e", "d"], "e"),
        (BLOCKS, [], None),
        ([{"far", "near"}] * 3, ["near", "far"], "near"),
        ([], ["near", "far"], "near"),
    ],
)
def test_the_idle_one_with_most_consecutive_blocks_sends_else_the_nearest(
    blocks: list[set[str]], idle: list[str], sends: str | None
) -> None:
    """The nearest idle worker comes first in the list; it sends where no idle one holds more, or a file is empty."""
    assert sending_worker(blocks, idle) == sends
