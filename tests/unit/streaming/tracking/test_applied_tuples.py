"""What a step remembers of tuples that it has applied."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.tracking.applied_tuples import AppliedTuples, read_low_watermarks
from springline.spark_jobs.streaming.tracking.root_id import root_id

Row = tuple[int, int, int]  # offset of a message, number of the first tuple, and how many they are


def marks(offsets: Mapping[int, int] | None = None) -> np.ndarray:
    """The low-water marks of partitions."""
    low_watermarks = {str(partition): offset for partition, offset in (offsets or {}).items()}
    return read_low_watermarks({"low_watermarks": {"low_watermarks": low_watermarks}})


def columns(*rows: Row, partition: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tuples of messages of a partition."""
    roots = np.array([root_id(partition, offset) for offset, _, _ in rows], np.uint64)
    return roots, np.array([first for _, first, _ in rows]), np.array([count for _, _, count in rows])


def new(applied: AppliedTuples, *rows: Row, partition: int = 3) -> list[bool]:
    """Which of these tuples are new."""
    is_new = applied.add(*columns(*rows, partition=partition))
    return [True] * sum(count for *_, count in rows) if is_new is None else is_new.tolist()


def after(applied: AppliedTuples, offsets: Mapping[int, int] | None = None) -> AppliedTuples:
    """The next round's."""
    return AppliedTuples(marks(offsets), applied.runs(), applied.last())


def test_what_follows_is_new_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing is lost, doubled or late, each range is behind those before, from round to round."""
    monkeypatch.setattr(AppliedTuples, "_bitmap", None)
    applied = AppliedTuples(marks())
    assert new(applied, (1, 0, 2), (2, 0, 3), (2, 3, 1)) == [True] * 6
    applied = after(applied)
    assert new(applied, (2, 4, 2), (5, 1, 2)) == [True] * 4
    assert new(applied, (1, 0, 2), partition=4) == [True] * 2


def test_a_tuple_that_comes_when_its_root_is_finished_is_not_applied() -> None:
    """It is forgotten by then, at once or later: it was applied, whether or not anybody still knows."""
    applied = AppliedTuples(marks())
    new(applied, (1, 0, 1), (2, 0, 1))
    applied = after(after(applied, {3: 3}))
    assert not AppliedTuples(marks({3: 3}), applied.runs()).runs()
    assert new(AppliedTuples(marks({3: 3}), (), {}), (1, 0, 1), (3, 0, 1), (2, 0, 1), (3, 1, 1)) == [
        False, True, False, True,
    ]  # fmt: skip


def test_many_messages_are_remembered_in_few_runs() -> None:
    """However many rounds they came in."""
    applied = AppliedTuples(marks())
    for number in range(200):
        rows = [(500 * number + step, 0, 7) for step in range(500)]
        assert all(new(applied, *rows))
        applied = after(applied)
    assert len(applied.runs()) < 40
    assert sum(run.num_rows for run in applied.runs()) == 100_000
    assert new(applied, (99_999, 6, 2), (5, 0, 1)) == [False, True, False]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=5), max_size=8
    ),
    st.integers(0, 255),
)
def test_a_set_of_tuples_says_the_same(calls: list[list[Row]], rounds: int) -> None:
    """In any order, with searches between, and rounds that end anywhere."""
    applied, oracle = AppliedTuples(marks()), set()
    for number, rows in enumerate(calls):
        expected = []
        for offset, first, count in rows:
            for place in range(first, first + count):
                expected.append((offset, place) not in oracle)
                oracle.add((offset, place))
        assert new(applied, *rows) == expected
        if rounds >> number & 1:
            applied = after(applied)
        every = [(offset, 0, 12) for offset in range(6)]
        assert applied.find(*columns(*every)).tolist() == [
            (offset, place) in oracle for offset in range(6) for place in range(12)
        ]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30),
    st.dictionaries(st.integers(0, 3), st.integers(0, 10)),
)
def test_finished_messages_of_partitions_are_dropped(messages: list[tuple[int, int]], offsets: dict[int, int]) -> None:
    """A run stays while more than half of it is open, and has only open messages otherwise."""
    applied = AppliedTuples(marks())
    for partition, offset in messages:
        applied.add(*columns((offset, 0, 1), partition=partition))
    runs = applied.runs()
    every = [root_id(partition, offset) >> 16 for partition, offset in sorted(set(messages))]
    opened = [message for message in every if message % (1 << 36) >= offsets.get(message >> 36, 0)]
    left = AppliedTuples(marks(offsets), runs).runs()
    assert [message for run in left for message in run.column("message").to_pylist()] == (
        every if 2 * len(opened) > len(every) else opened
    )
