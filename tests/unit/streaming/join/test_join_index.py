"""A hash index finds the places of a key's rows, the newest first, however its table has grown."""

from __future__ import annotations

import numpy as np
import pytest

from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor
from springline.spark_jobs.streaming.join.task.hash_index import HashIndex


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
