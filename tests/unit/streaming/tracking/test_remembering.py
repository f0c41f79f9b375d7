"""What a step remembers of tuples that it has applied."""

from __future__ import annotations

import numpy as np

from springline.spark_jobs.streaming.tracking.dedup import DedupState, read_low_watermarks
from springline.spark_jobs.streaming.tracking.root_id import root_id


def ids(*numbers: int) -> np.ndarray:
    """Ids of tuples."""
    return np.array(numbers, np.uint64)


def roots(*offsets: int) -> np.ndarray:
    """Roots of partition 3 at these offsets."""
    return np.array([root_id(3, offset) for offset in offsets], np.uint64)


def marks(offsets: dict[int, int] | None = None) -> np.ndarray:
    """The low-water marks of partitions."""
    return read_low_watermarks(
        {
            "low_watermarks": {
                "low_watermarks": {str(partition): offset for partition, offset in (offsets or {}).items()}
            }
        }
    )


def test_a_tuple_is_fresh_once() -> None:
    """Also within one look."""
    dedup_state = DedupState()
    assert dedup_state.add_new(roots(1, 2, 1), ids(5, 6, 5), marks()).tolist() == [True, True, False]
    assert dedup_state.add_new(roots(2, 2), ids(6, 7), marks()).tolist() == [False, True]


def test_what_a_state_holds_is_remembered() -> None:
    """By whoever begins with it."""
    dedup_state = DedupState()
    dedup_state.add_new(roots(1, 2), ids(5, 6), marks())
    after = dedup_state.with_applied(roots(1, 2), ids(5, 6), marks())
    assert DedupState.of(after.runs).add_new(roots(1, 2, 2), ids(5, 6, 7), marks()).tolist() == [False, False, True]


def test_a_tuple_that_comes_when_its_root_is_finished_is_not_applied_again() -> None:
    """Its id is forgotten by then, at once or later: it was applied, whether or not anybody still knows."""
    dedup_state = DedupState()
    dedup_state.add_new(roots(1, 2), ids(5, 6), marks())
    after = dedup_state.with_applied(roots(1, 2), ids(5, 6), marks({3: 3}))
    assert not after.runs
    for each in (after, DedupState.of(after.runs)):
        is_new = each.add_new(roots(1, 3, 2, 3), ids(5, 7, 6, 7), marks({3: 3}))
        assert is_new.tolist() == [False, True, False, False]


def test_what_is_below_the_marks_is_forgotten_in_time() -> None:
    """Runs whose roots are all finished go; the others stay as they are."""
    dedup_state = DedupState()
    first = dedup_state.with_applied(roots(1, 2), ids(5, 6), marks())
    second = first.with_applied(roots(8, 9), ids(7, 8), marks({3: 3}))
    assert sum(run.num_rows for run in second.runs) == 2
    assert not second.with_applied(roots(), ids(), marks({3: 10})).runs
    assert second.with_applied(roots(), ids(), marks({4: 10})).runs == second.runs


def test_a_million_tuples_are_remembered_in_few_runs() -> None:
    """However many rounds they came in."""
    dedup_state, random = DedupState(), np.random.default_rng(1)
    for number in range(200):
        fresh = random.integers(1, 1 << 63, 5_000, dtype=np.uint64)
        of = np.full(fresh.size, roots(number)[0])
        assert dedup_state.add_new(of, fresh, marks()).all()
        dedup_state = dedup_state.with_applied(of, fresh, marks())
    assert len(dedup_state.runs) < 40
    assert sum(run.num_rows for run in dedup_state.runs) == dedup_state.count == 1_000_000
    assert DedupState.of(dedup_state.runs).count == 1_000_000
