"""Queries come, change and go while the job runs."""

from datetime import UTC, datetime

import pytest

from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.support.decoding.windows_job import Job, csv, registry

T = 1_700_000_040
BY_SIP = "SELECT sip, count(*) AS n FROM S GROUP BY sip WINDOWING 60 s"
BY_KIND = "SELECT kind, count(*) AS n FROM S GROUP BY kind WINDOWING 60 s"


def flows(*seconds: float) -> list[bytes]:
    """One message of rows at those seconds after T."""
    return [csv(*((T + second, "x", "a", 2, 0.5) for second in seconds))]


def windows(job: Job, query: str) -> list[tuple[float, int]]:
    return [(row["window_start"].timestamp() - T, row["n"]) for row in job.rows(query)]


def test_a_window_that_one_unit_has_started_already_is_not_complete() -> None:
    """The greatest time that any unit had seen counts."""
    job = Job(registry({"a": BY_SIP}), mappers=2)
    job.round(flows(1), flows(62))
    job.follow(job.registry.register("b", BY_KIND))
    job.round(flows(63, 121, 200), flows(64, 122, 200))
    job.finish()
    assert windows(job, "b") == [(120, 2), (180, 2)]


def test_a_query_over_slices_that_are_held_begins_at_once() -> None:
    """Same keys, filter and slices: another window, HAVING or SELECT, or a second query, uses what is there."""
    job = Job(registry({"a": BY_SIP}))
    job.round(flows(1))
    more = job.registry.register("b", BY_SIP.replace("60 s", "HOP(120 s, 60 s)"))
    job.follow(more.change("a", BY_SIP.replace("count(*) AS n", "count(*) * 10 AS n")))
    job.round(flows(30, 61, 121))
    job.finish()
    assert windows(job, "a") == [(0, 20), (60, 10), (120, 10)]
    assert windows(job, "b") == [(0, 3), (60, 2), (120, 1)]


def test_a_changed_query_with_other_slices_starts_over_and_emits_no_window_again() -> None:
    """Here its keys change; the window in which that happened is left out."""
    job = Job(registry({"a": BY_SIP}))
    job.round(flows(1, 61))
    job.follow(job.registry.change("a", BY_KIND))
    job.round(flows(70, 121, 181))
    job.finish()
    assert [(begin, "sip" in row) for row in job.rows("a") for begin in [row["window_start"].timestamp() - T]] == [
        (0, True), (120, False), (180, False),
    ]  # fmt: skip


def test_an_aggregate_that_is_new_starts_empty() -> None:
    """The slices that are held do not have it; other queries over them do not notice."""
    job = Job(registry({"a": BY_SIP}))
    job.round(flows(1))
    job.follow(job.registry.register("b", BY_SIP.replace("count(*)", "sum(bytes)")))
    job.round(flows(30, 61, 121))
    job.finish()
    assert windows(job, "a") == [(0, 2), (60, 1), (120, 1)]
    assert windows(job, "b") == [(60, 2), (120, 2)]


def test_the_total_of_a_landmark_outlives_a_change_that_is_taken_back() -> None:
    """Reducers knew the change and mappers never did; what was added up before is not in slices any more."""
    landmark = BY_SIP.replace("60 s", f"LANDMARK('{datetime.fromtimestamp(T, UTC):%Y-%m-%d %H:%M:%S}', 60 s)")
    job = Job(registry({"a": landmark}))
    job.round(flows(1, 2, 61))
    job.round(flows(62, 121))
    changed_registry = job.registry.change("a", landmark.replace("AS n", "AS n, sum(bytes) AS b"))
    job.reduced_by = changed_registry
    job.reduce()
    job.follow(changed_registry.change("a", landmark))
    job.round(flows(181))
    assert windows(job, "a") == [(0, 2), (0, 4), (0, 5)]


def test_a_cancelled_query_emits_nothing_more_and_its_slices_go() -> None:
    """Registered again, it starts over."""
    job = Job(registry({"a": BY_SIP, "b": BY_KIND}))
    job.round(flows(1))
    before = job.registry
    job.follow(before.cancel("b"))
    job.round(flows(2))
    assert len(job.states["reduce", 0].runs) == 1
    job.follow(job.registry.register("b", BY_KIND))
    job.round(flows(3, 61, 121))
    job.finish()
    assert windows(job, "a") == [(0, 3), (60, 1), (120, 1)]
    assert windows(job, "b") == [(60, 1), (120, 1)]


def test_a_job_may_begin_without_queries() -> None:
    """Then only the times of rows are read."""
    job = Job(registry({}))
    job.round(flows(1))
    job.follow(job.registry.register("a", BY_SIP))
    job.round(flows(61, 121))
    job.finish()
    assert windows(job, "a") == [(60, 1), (120, 1)]


def late_reducers(original: QueryRegistry, changed: QueryRegistry, *, lag: int) -> Job:
    """Mappers and reducers learn of `then` at different times: reducers `lag` rounds after mappers, or before."""
    job = Job(original, mappers=2, reducers=2)
    for number, second in enumerate((1, 30, 61, 90, 121, 150, 181, 241)):
        job.registry = changed if number >= 3 else original
        job.reduced_by = changed if number >= 3 + lag else original
        job.round(flows(second), flows(second + 0.5))
    job.finish()
    return job


@pytest.mark.parametrize("lag", [-2, -1, 0, 1, 2])
def test_stages_may_learn_of_a_new_or_changed_query_at_different_times(lag: int) -> None:
    """What comes before the reducers know it is kept; what they know before it comes is waited for.

    Each window that is emitted is whole, by the old text or by the new one.
    """
    first, full = registry({"a": BY_SIP}), {0: 4, 60: 4, 120: 4, 180: 2, 240: 2}
    job = late_reducers(first, first.register("b", BY_KIND), lag=lag)
    assert windows(job, "a") == list(full.items())
    assert windows(job, "b") == [(120, 4), (180, 2), (240, 2)]
    results = windows(late_reducers(first, first.change("a", BY_KIND), lag=lag), "a")
    assert all(full[int(begin)] == n for begin, n in results), results
    assert [begin for begin, _ in results] == sorted({begin for begin, _ in results})
    assert results[-2:] == [(180, 2), (240, 2)]


def test_a_cancel_that_mappers_never_saw_does_not_bring_old_slices_back() -> None:
    """Reducers dropped them; mappers go from the version before to the one after and hold all along."""
    first = registry({"a": BY_SIP, "b": BY_KIND})
    cancelled = first.cancel("b")
    registered_again = cancelled.register("b", BY_KIND)
    job = Job(first)
    job.round(flows(1))
    job.reduced_by = cancelled
    job.round(flows(2))
    job.follow(registered_again)
    job.round(flows(3, 61, 121))
    job.finish()
    assert windows(job, "a") == [(0, 3), (60, 1), (120, 1)]
    assert windows(job, "b") == [(60, 1), (120, 1)]
