"""A capacity that is kept without a walk through the store for each file."""

from __future__ import annotations

import pytest

from springline.persistence.backends.capacity import Capacity
from springline.persistence.errors import StorageFullError


def test_few_files_are_preceded_by_a_walk_however_many_there_are() -> None:
    """What others write is noticed by the next measurement, and what was deleted before anything is refused."""
    now, walks, files = [0.0], [0], [0]

    def measure() -> int:
        now[0] += 0.001 * files[0]  # a walk takes as long as there are files
        walks[0] += 1
        return files[0]

    capacity = Capacity("store", 10_000, measure, clock=lambda: now[0])
    for _ in range(9_000):
        capacity.reserve("part", 1)
        files[0] += 1
        now[0] += 0.01
    assert walks[0] < 20
    files[0] = 10_000  # by another process
    now[0] += 1_000
    with pytest.raises(StorageFullError, match="store is full: part of 1 bytes does not fit"):
        capacity.reserve("part", 1)
    files[0] = 0
    capacity.reserve("part", 10_000)
