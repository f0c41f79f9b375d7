"""Rounds: what is planned, in which form it is kept, and what stops the planner."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.errors import FormatVersionError
from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.history import BroadcastValue, read_line, write_line
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.rounds import (
    TICK_SECONDS,
    OffsetBounds,
    RoundPlan,
    initial_plan,
    next_round,
    start_offsets,
)
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.testing.memory_log import MemoryLog

V = {"queries": "q1"}
offsets = st.integers(0, 10**6)
ranges = st.dictionaries(st.integers(0, 20), st.tuples(offsets, offsets))


@given(st.builds(RoundPlan, st.integers(1, 9), offsets, st.floats(0, 1e10), ranges, st.integers(1, 30), st.just(V)))
def test_a_plan_comes_back_as_it_was_written(plan: RoundPlan) -> None:
    """And the same plan is always the same text: Spark compares offsets as texts."""
    decoded = from_json_value(RoundPlan, json.loads(json.dumps(to_json_value(plan))), "here")
    assert decoded == plan and json.dumps(to_json_value(decoded)) == json.dumps(to_json_value(plan))
    line = write_line(plan)
    logged = read_line(Message(7, line))
    assert logged == plan and write_line(decoded) == line


def test_a_line_of_another_version_is_refused_with_the_remedy() -> None:
    """A driver that passed it over would plan its rounds again."""
    line = write_line(BroadcastValue("digest", {"a": 1})).replace(b'"form":2', b'"form":1')
    with pytest.raises(FormatVersionError, match=r"offset 7: a line of the rounds log has format 1.*reset the job"):
        read_line(Message(7, line))


@given(st.data())
def test_rounds_cover_every_unit_without_gap_or_overlap(data: st.DataObject) -> None:
    """Whatever arrives, whatever is admitted, units that join included; the clock never goes back."""
    high = {0: 5}
    plan = initial_plan(start_offsets({0: OffsetBounds(2, 5)}), units=1)
    assert plan.ranges == {0: (2, 2)}
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            high[len(high)] = 0
        high = {unit: at + data.draw(st.integers(0, 4)) for unit, at in high.items()}
        low = {unit: 2 if unit == 0 else 0 for unit in high}
        extents = {unit: OffsetBounds(low[unit], at) for unit, at in high.items()}
        admitted = {unit: data.draw(st.integers(0, 3)) for unit in high if data.draw(st.booleans())}
        after = next_round(plan, extents, admitted, data.draw(st.floats(0, 100)), V, log="log")
        if after is None:
            continue
        assert after.number == plan.number + 1 and after.clock >= plan.clock and set(after.ranges) == set(high)
        for unit, (start, to) in after.ranges.items():
            assert start == (plan.ranges[unit][1] if unit in plan.ranges else low[unit])
            assert start <= to <= high[unit] and to - start <= admitted.get(unit, 10**9)
        plan = after


def test_an_idle_stage_has_a_round_a_tick() -> None:
    """Windows close and roots time out though nothing arrives."""
    extents = {0: OffsetBounds(0, 3)}
    plan = next_round(initial_plan({0: 0}, units=1), extents, {}, 50.0, V, log="log")
    assert plan is not None and plan.messages == 3
    assert next_round(plan, extents, {}, 50.0 + TICK_SECONDS / 2, V, log="log") is None
    tick = next_round(plan, extents, {}, 50.0 + TICK_SECONDS, V, log="log")
    assert tick is not None and tick.messages == 0 and tick.ranges == {0: (3, 3)}


def test_a_stage_that_waits_for_nothing_has_a_round_every_ten_seconds() -> None:
    """It shows that its tasks are alive; a unit that waits for a time has one then, a second later at the earliest."""
    stage = Stage("add", "", "numbers", 2, job="job")
    clock, log = [100.0], MemoryLog({"numbers": 2, stage.rounds: 1, stage.reports: 1})
    planner = Planner(stage, log, lambda: clock[0], dict)
    plan = planner.after(planner.begin())
    assert plan is not None and planner.after(plan) is None

    def wait(*timers: float | None) -> float:
        """How long it takes to the next round, once the units have reported these timers."""
        nonlocal plan
        assert plan is not None
        for unit, timer in enumerate(timers):
            report = UnitReport(unit, RoundStatus(number=plan.number, timer=timer))
            log.put(stage.reports, 0, report.encode())
        began = clock[0]
        while (following := planner.after(plan)) is None:
            assert planner.due_in(plan) > 0
            clock[0] += 0.25
        plan = following
        return clock[0] - began

    assert wait() == 1.0, "until it is known what they wait for"
    waits = [wait(None, None), wait(None, 0.0), wait(clock[0] + 3.5, None), wait(clock[0] + 99, None)]
    assert waits == [10, 1, 3.5, 10]


def test_a_changed_version_makes_a_round_at_once() -> None:
    """A query that is registered while nothing arrives is known from the next round on."""
    extents = {0: OffsetBounds(0, 0)}
    plan = next_round(initial_plan({0: 0}, units=1), extents, {}, 1.0, V, log="log")
    assert plan is not None and next_round(plan, extents, {}, 1.0, V, log="log") is None
    next_plan = next_round(plan, extents, {}, 1.0, {"queries": "q2"}, log="log")
    assert next_plan is not None and next_plan.broadcast_hashes == {"queries": "q2"}


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ({0: OffsetBounds(6, 9), 1: OffsetBounds(0, 9)}, r"netflow\[0\]: round 4 resumes at offset 5.*6 to 9"),
        ({0: OffsetBounds(0, 4), 1: OffsetBounds(0, 9)}, r"netflow\[0\]: round 4 resumes at offset 5.*0 to 4"),
        ({0: OffsetBounds(0, 5)}, r"partitions \[1\]"),
    ],
    ids=["deleted", "truncated", "fewer partitions"],
)
def test_messages_that_are_gone_are_an_error(extents: dict[int, OffsetBounds], message: str) -> None:
    """It names the log, the offset, and what is there."""
    with pytest.raises(MessagesLostError, match=message):
        next_round(RoundPlan(1, 3, 0.0, {0: (2, 5), 1: (0, 5)}), extents, {}, 1.0, V, log="netflow")


def test_a_round_names_the_units_that_have_more_than_it_admits() -> None:
    """One with nothing left is not among them, though others are."""
    extents = {0: OffsetBounds(0, 5), 1: OffsetBounds(0, 2), 2: OffsetBounds(0, 0)}
    plan = next_round(initial_plan(start_offsets(extents), units=3), extents, {0: 3, 1: 2, 2: 9}, 1.0, V, log="log")
    assert plan is not None
    assert (plan.lagging, plan.lag) == ((0,), 2)
    assert from_json_value(RoundPlan, to_json_value(plan), "here") == plan
