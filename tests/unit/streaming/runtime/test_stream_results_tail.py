"""The newest results, from topics that are lists."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime import newest_results
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.newest_results import newest_rows
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.testing.memory_log import MemoryLog

TOPIC = "job.results"


class Results:
    """Results of a few units; each row has a number of its own."""

    def __init__(self, units: int = 2) -> None:
        self.log = MemoryLog({TOPIC: units})
        self._order: tuple[int, int] = (0, 0)
        self._rows = 0

    def round(self, *messages: tuple[int, str, object, int], incarnation: int = 1) -> None:
        """A round; a message is its unit, its query, the end of its window, and how many rows it holds."""
        self._order = (incarnation, self._order[1] + 1)
        records: dict[int, list[OutgoingRecord]] = {}
        for unit, query, end, rows in messages:
            lines = [{"query": query, "window_end": end, "n": self._rows + i} for i in range(rows)]
            self._rows += rows
            unit_records = records.setdefault(unit, [])
            headers = Stamp(incarnation, unit, self._order[1], len(unit_records)).header() | {"query": query.encode()}
            unit_records.append(
                OutgoingRecord(TOPIC, unit, "".join(json.dumps(line) + "\n" for line in lines).encode(), headers)
            )
        for unit, unit_records in records.items():
            self.log.publish(f"writer-{unit}", self._order, unit_records, [(TOPIC, unit, unit)])

    def newest(self, last: int, query: str = "") -> list[int]:
        """The numbers of the newest rows."""
        return [row["n"] for row in newest_rows(self.log, TOPIC, last, query)]


def test_rows_are_counted_over_all_units_and_the_newest_is_last() -> None:
    """A part of a message, if need be; there are none of an empty topic."""
    results = Results()
    assert results.newest(5) == []
    results.round((0, "q", "T1", 3), (1, "q", "T1", 2))  # 0 1 2, 3 4
    results.round((0, "q", "T2", 1), (1, "q", "T2", 1))  # 5, 6
    assert results.newest(2) == [5, 6]
    assert results.newest(5) == [2, 3, 4, 5, 6]
    assert results.newest(99) == list(range(7))


def test_within_a_round_the_later_window_is_the_newer_one_whichever_unit_emits_it() -> None:
    """Units write at the same time; ends of windows of rows are numbers, which come before all times."""
    results = Results()
    results.round((1, "q", "T1", 1), (1, "q", "T2", 1), (0, "q", "T1", 1), (0, "q", "T2", 1))  # 0 1, 2 3
    assert results.newest(2) == [3, 1]
    results = Results(1)
    results.round((0, "time", "T1", 1), (0, "rows", 2000, 1), (0, "rows", 1000, 1))
    assert results.newest(9) == [2, 1, 0]


def test_after_a_rewind_what_is_emitted_again_is_newer() -> None:
    """Its windows may have ended earlier."""
    results = Results(1)
    results.round((0, "q", "T5", 1))
    results.round((0, "q", "T1", 1), incarnation=2)
    assert results.newest(1) == [1]


def test_a_query_that_seldom_emits_is_found_far_back() -> None:
    """Until so many offsets from the end; nothing is said of what lies before them."""
    results = Results(1)
    results.round((0, "seldom", "T0", 2))
    for number in range(300):
        results.round((0, "often", f"T{number:03}", 1))
    assert results.newest(1, "seldom") == [1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_results, "MAX_OFFSETS", 300)
        assert results.newest(1, "seldom") == []


def test_rows_that_kafka_has_deleted_are_not_asked_for() -> None:
    """What is left is emitted."""
    results = Results(1)
    results.round((0, "q", "T1", 1))
    results.log.truncate(TOPIC)
    results.round((0, "q", "T2", 1))
    assert results.newest(5) == [1]


ROUNDS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from(["T1", "T2", "T3"]), st.integers(1, 3)),
        max_size=6,
    ),
    max_size=8,
)


@given(ROUNDS, st.integers(1, 20), st.sampled_from(["", "a", "b"]), st.integers(1, 5))
def test_the_newest_rows_are_the_end_of_all_rows(
    rounds: list[list[tuple[int, str, str, int]]], last: int, query: str, step: int
) -> None:
    """However many offsets are read at a time, and wherever that cuts a round."""
    results = Results(3)
    for messages in rounds:
        results.round(*messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_results, "_FIRST_OFFSETS", step)
        newest_rows = results.newest(last, query)
    assert newest_rows == results.newest(10**6, query)[-last:]
    assert len(newest_rows) == min(last, sum(n for each in rounds for _, q, _, n in each if query in ("", q)))
