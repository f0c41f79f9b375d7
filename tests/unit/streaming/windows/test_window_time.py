"""Late rows, idle units, when windows are emitted, and queries that come, change and go meanwhile."""

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Round, State
from springline.spark_jobs.streaming.sql.windowing import CountWindow, Hop, Landmark
from springline.spark_jobs.streaming.windows.errors import InvalidPartialError
from springline.spark_jobs.streaming.windows.reducer import Reducer
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.state.triggers import (
    WindowBounds,
    floor_of,
    landmark_begin,
    needed_from,
    windows_to_fire,
)
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime
from tests.support.decoding.windows_job import Job, csv, registry, stream

T = 1_700_000_040  # a whole minute
BY_SIP = "SELECT sip, count(*) AS n FROM S GROUP BY sip WINDOWING 60 s"
BY_KIND = "SELECT kind, count(*) AS n FROM S GROUP BY kind WINDOWING 60 s"
COUNT = {"q": "SELECT count(*) AS n FROM S WINDOWING 60 s"}


def flows(*seconds: float) -> list[bytes]:
    """One message of rows at those seconds after T."""
    return [csv(*((T + second, "x", "a", 2, 0.5) for second in seconds))]


def windows(job: Job, query: str = "q") -> list[tuple[float, int]]:
    """(begin, seconds after T; rows) of what was emitted so far."""
    return [(row["window_start"].timestamp() - T, row["n"]) for row in job.rows(query)]


def test_a_window_is_emitted_once_when_the_last_unit_has_passed_its_end() -> None:
    """The least watermark counts."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1, 61), flows(2))
    assert windows(job) == []
    job.round([], flows(59, 60))
    assert windows(job) == [(0, 3)]
    job.round(flows(62), flows(63))
    assert windows(job) == [(0, 3)]
    job.finish()
    assert windows(job) == [(0, 3), (60, 4)]


def test_a_unit_without_a_report_yet_holds_every_window_back() -> None:
    """Also when it has not started at all."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1, 500))
    assert windows(job) == []


def test_a_reducer_that_comes_late_closes_the_windows_of_units_that_fell_idle_meanwhile() -> None:
    """It takes their rows and that they are idle in one round, and must know how far they had come."""
    job = Job(registry(COUNT, stream(idle_timeout=5.0)))
    job.map(flows(1, 61), clock=0.0)
    job.map([], clock=10.0)
    job.reduce()
    assert windows(job) == [(0, 1)]
    job.finish()
    assert windows(job) == [(0, 1), (60, 1)]


def test_lateness_keeps_slices_open_and_delays_results() -> None:
    """The row at 59 s comes when 64 s has been seen, within 5 s of its window's end; the next one comes too late."""
    job = Job(registry({"q": COUNT["q"] + " LATE 5 s"}))
    job.round(flows(1, 64, 59))
    assert windows(job) == []
    job.round(flows(65))
    assert windows(job) == [(0, 2)]
    job.round(flows(58, 66))
    assert job.counts["late.q"] == job.counts["late"] == 1
    (letter,) = job.dead
    assert letter.reason == "row 1: late: more than 5 s after the end of its slice, for q"
    assert letter.value == flows(58)[0]


def test_what_is_late_does_not_depend_on_rounds_or_on_other_units() -> None:
    """A row that its own unit has overtaken is late even where the window is still open for want of another unit."""
    for rounds in ([flows(1, 61, 2)], [flows(1), flows(61), flows(2)]):
        job = Job(registry(COUNT), mappers=2)
        for messages in rounds:
            job.round(messages, flows(0))
        job.finish()
        assert job.counts["late.q"] == 1
        assert windows(job) == [(0, 1 + len(rounds)), (60, 1)]


def test_an_idle_unit_holds_no_window_back() -> None:
    """Ten seconds by the clock of the rounds, by default; what it brings later for a closed window is late."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1), flows(2), clock=100)
    job.round(flows(61), [], clock=105)
    assert windows(job) == []
    job.round(flows(62), [], clock=111)
    assert windows(job) == [(0, 2)]
    job.round([], flows(3, 64), clock=112)
    assert job.counts["late"] == 1
    job.finish()
    assert windows(job) == [(0, 2), (60, 3)]


def test_a_stream_without_idle_waits_for_ever() -> None:
    """`idle_timeout=None`."""
    job = Job(registry(COUNT, stream(idle_timeout=None)), mappers=2)
    job.round(flows(1, 61), [])
    job.finish()
    assert windows(job) == []


@settings(max_examples=12)
@given(
    st.sampled_from(["60 s", "HOP(60 s, 20 s)", "7 s", "60 s LATE 5 s", "ROWS(2, 1)", "LANDMARK('2023-11-14', 30 s)"]),
    st.lists(st.tuples(st.integers(0, 200), st.floats(0, 3), st.booleans()), min_size=1, max_size=4),
)
def test_rounds_at_timers_alone_close_what_rounds_of_every_second_close(
    window: str, batches: list[tuple[int, float, bool]]
) -> None:
    """Within three seconds, or the ten after which a round comes in any case."""
    sql = f"SELECT count(*) AS n FROM S WINDOWING {window}"
    every, rare = (Job(registry({"q": sql}, stream(idle_timeout=4.0)), mappers=2) for _ in range(2))
    clock, timers = 100.0, [0.0]
    for event, pause, is_left in batches:
        clock += pause
        rows = [flows(event), []] if is_left else [[], flows(event)]
        every.round(*rows, clock=clock)
        timers = [output.timer for output in rare.round(*rows, clock=clock)]
    counts = []
    for _ in range(90):
        clock += 1
        every.round([], [], clock=clock)
        due_clock = min((timer for timer in timers if timer is not None), default=math.inf)
        if clock >= min(max(due_clock, rare.clock + 1), rare.clock + 10):
            timers = [output.timer for output in rare.round([], [], clock=clock)]
        emitted, all_of_them = rare.rows("q"), every.rows("q")
        counts.append(len(all_of_them))
        assert emitted == all_of_them[: len(emitted)] and len(emitted) >= counts[-11:][0]
    assert rare.rows("q") == every.rows("q")
    assert timers == [None, None]


def test_when_all_units_are_idle_event_time_goes_on_by_the_clock() -> None:
    """So the last window closes too, when so much time has passed as it still had to go."""
    job = Job(registry(COUNT))
    job.round(flows(1, 50), clock=100)
    job.round([], clock=111)
    job.round([], clock=120)
    assert windows(job) == []
    job.round([], clock=121)
    assert windows(job) == [(0, 2)]
    job.round(flows(59, 61), clock=122)
    assert job.counts["late"] == 1


def test_rows_that_came_while_the_job_was_down_are_not_late() -> None:
    """All units were idle before; a reducer that comes back first finds nothing new, and lets time stand."""
    job = Job(registry(COUNT))
    job.round(flows(1, 50), clock=100)
    job.round([], clock=111)
    job.reduce(clock=3_700)
    job.round(flows(55, 59, 61), clock=3_701)
    assert job.counts["late"] == 0
    job.round(flows(120), clock=3_702)
    assert windows(job) == [(0, 4), (60, 1)]


def test_a_unit_whose_rows_are_not_admitted_is_not_idle() -> None:
    """Back-pressure may keep them waiting for longer than that; they are not late for it."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1), flows(2), clock=100)
    for clock in (105, 120, 140):
        job.map(flows(clock), [], clock=clock, left=[1])
        job.reduce()
    assert windows(job) == []
    job.round([], flows(3, 61), clock=141)
    assert job.counts["late"] == 0 and windows(job) == [(0, 3)]


def test_the_first_unit_that_resumes_closes_no_window_of_the_others() -> None:
    """All were idle; the rows of the others come a moment later, for windows that it is past already."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1), flows(2), clock=100)
    job.round(clock=111)
    job.round(flows(600), [], clock=700)
    job.round([], flows(545), clock=701)
    job.round(flows(660), flows(661), clock=702)
    assert job.counts["late"] == 0
    assert windows(job) == [(0, 2), (540, 1), (600, 1)]


def test_a_unit_that_stays_idle_after_the_others_have_resumed_holds_them_back_for_as_long_as_ever() -> None:
    """Ten seconds here, by the clock of the rounds."""
    job = Job(registry(COUNT), mappers=2)
    job.round(flows(1), flows(2), clock=100)
    job.round(clock=111)
    for clock in (700, 705, 709):
        job.round(flows(clock), [], clock=clock)
    assert windows(job) == []
    job.round(flows(720), [], clock=710)
    assert windows(job) == [(0, 2), (660, 3)]


def test_a_unit_that_was_idle_at_an_earlier_round_than_the_others_have_ended_is_waited_for() -> None:
    """A reducer has taken the round in which one resumes, and not yet that of the other one."""
    time = EventTime().advance({0: 60.0, 1: 60.0}, {0, 1}, range(2), {0: 100.0, 1: 100.0})
    ahead = time.advance({0: 600.0, 1: 60.0}, {1}, range(2), {0: 200.0, 1: 199.0})
    assert ahead.closed == time.closed == 60_000_000
    assert ahead.advance({0: 600.0, 1: 60.0}, {1}, range(2), {0: 200.0, 1: 200.0}).closed == 600_000_000
    advanced = time.advance({0: 60.0, 1: 60.0}, {0, 1}, range(2), {0: 150.0, 1: 151.0})
    assert advanced.closed == 110_000_000 and advanced.idle_since == 100.0


def test_rows_that_come_for_slices_which_others_have_closed_are_dead_letters() -> None:
    """By group, with where they are in the topic; so no row vanishes."""
    job = Job(registry({"q": BY_KIND}), mappers=2)
    job.round(flows(1), flows(2), clock=100)
    job.round(flows(61), [], clock=105)
    job.round(flows(62), [], clock=111)
    job.round([], flows(3, 4, 64), clock=112)
    job.finish()
    assert sum(row["n"] for row in job.rows("q")) == 5
    (letter,) = job.dead
    assert job.counts["late"] == 2 and (letter.partition, letter.offset) == (1, 1)
    assert json.loads(letter.value) == {"slice": "2023-11-14T22:14:00+00:00", "k0": "a", "rows()": 2}
    assert letter.reason == (
        "late: 2 rows among offsets 1 to 1 of partition 1, for q: other partitions closed their slices, up to "
        "2023-11-14T22:15:02+00:00, while theirs was idle; a line is a group"
    )


def test_event_time_never_goes_back() -> None:
    """A unit that falls idle and comes back with an older time does not open what was closed."""
    time = EventTime().advance({0: 100.0}, {1}, range(2), {0: 1.0, 1: 1.0})
    assert time.closed == 100_000_000
    assert time.advance({0: 100.0, 1: 40.0}, (), range(2), {0: 2.0, 1: 2.0}).closed == 100_000_000
    assert from_json_value(EventTime, to_json_value(time), "here") == time


def test_times_of_one_row_after_another_make_no_empty_windows() -> None:
    """A window without rows gives no results, however long the gap is."""
    job = Job(registry({"q": "SELECT count(*) AS n FROM S WINDOWING HOP(2 s, 1 s)"}))
    job.round(flows(0, 100_000_000))
    job.finish()
    assert windows(job) == [(-1, 1), (0, 1), (99_999_999, 1), (100_000_000, 1)]


@pytest.mark.parametrize(
    ("window", "slices", "bounds", "expected"),
    [
        (Hop(4, 2), [0, 2], WindowBounds(2, 4, None, None), [(0, 4)]),
        (Hop(4, 2), [0, 2], WindowBounds(None, 9, -1, None), [(0, 4), (2, 6)]),
        (Hop(4, 2), [0, 2], WindowBounds(None, 9, 0, None), [(2, 6)]),
        (Hop(4, 2), [0, 2], WindowBounds(None, None, None, None), []),
        (CountWindow(5, 3), [0, 1, 2], WindowBounds(0, 3, None, None), [(-2, 3)]),
        (CountWindow(5, 3), [0, 1, 2, 3, 4, 5], WindowBounds(3, 6, None, None), [(1, 6)]),
    ],
)
def test_windows_that_are_due(
    window: Hop | CountWindow, slices: list[int], bounds: WindowBounds, expected: list[tuple[int, int]]
) -> None:
    """They end in (mark, limit], begin after `after` and not before the floor, and hold a slice."""
    assert windows_to_fire(window, slices, bounds) == expected


def test_slices_go_when_no_window_needs_them() -> None:
    """The least that any query needs, never back; None needs all."""
    assert needed_from(Hop(60, 20), 100) == 60
    assert needed_from(Landmark(0, 60), 120) == 120
    assert floor_of([60, 40], 20, None) == 40
    assert floor_of([60, 40], 50, None) == 50
    assert floor_of([60, 40], None, 10) == 10
    assert floor_of([60, None], 20, None) == 20
    assert floor_of([], None, None) is None


def test_a_landmark_that_has_gone_by_begins_with_the_first_whole_slice() -> None:
    """And says so by its beginning."""
    assert landmark_begin(Landmark(100, 60), None, None) == 100
    assert landmark_begin(Landmark(100, 60), 160, None) == 220
    assert landmark_begin(Landmark(100, 60), None, 160) == 160
    assert landmark_begin(Landmark(100, 60), 5, 5) == 100


def test_a_reducer_holds_no_more_slices_than_windows_need() -> None:
    """After many windows there are as few as after one."""
    job = Job(registry({"q": "SELECT sip, count(*) AS n FROM S GROUP BY sip WINDOWING HOP(60 s, 20 s)"}))
    for minute in range(30):
        job.round(flows(minute * 60, minute * 60 + 30))
    runs_by_name = job.states["reduce", 0].runs
    assert sum(run.num_rows for runs in runs_by_name.values() for run in runs) <= 12


@pytest.mark.parametrize("value", [b"rows", csv((1, 2))])
def test_a_buffer_that_no_mapper_sent_stops_the_reducer(value: bytes) -> None:
    """Somebody else writes to the topic: the error says where."""
    versions = {"queries": to_json_value(registry(COUNT))}
    step_input = Input("windows", 3, Round(1, 1, 0.0, versions), [Message(17, value)], {0: (17, 18)})
    with pytest.raises(InvalidPartialError, match="windows, unit 3, offset 17"):
        Reducer("S", "rows")(State(), step_input)


# ---- queries that come, change and go while the job runs


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
