"""Rates as planners carry them out: messages of rounds, and what holds when a lease is not renewed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.backpressure.rate_limit import (
    Credit,
    GrantReader,
    PlannedRound,
    RateLimit,
    RateLimiter,
    read_planned,
    spread,
    write_grant,
)
from springline.spark_jobs.streaming.backpressure.stage_meter import RoundCost
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.testing.memory_log import MemoryLog

ADMITTED = 1_000
LEASE = 1e9


@pytest.fixture
def stage() -> Stage:
    """A stage of two units."""
    return Stage("parse", "", "lines", 2, job="job", max_messages_per_round=ADMITTED)


def passes(pacing: RateLimiter, seconds: float, every: float) -> int:
    """How many messages rounds take that begin so many seconds after one another."""
    starts = np.arange(0.0, seconds, every)
    return sum(admit(pacing, {0: 1 << 20, 1: 1 << 20}, at, number) for number, at in enumerate(starts.tolist(), 1))


def admit(pacing: RateLimiter, waiting: dict[int, int], at: float, number: int = 1) -> int:
    """The messages of the next round, which is planned."""
    ranges = {unit: (0, many) for unit, many in pacing.max_messages(waiting, at).items()}
    plan = RoundPlan(1, number, at, ranges)
    pacing.on_round_planned(plan, at)
    return plan.messages


@pytest.mark.parametrize(
    ("throttled", "limit", "expected"),
    [
        ("parse", None, {0: ADMITTED, 1: 3}),
        ("count", RateLimit(1.0, 1.0), {0: ADMITTED, 1: 3}),  # only another stage is throttled
        ("parse", RateLimit(100e3, 0.0), {0: ADMITTED, 1: 3}),  # nothing was read yet
        ("parse", RateLimit(1e9, 1.0), {0: ADMITTED, 1: 3}),  # which bounds the memory of a round
    ],
)
def test_without_a_rate_and_with_a_great_one_each_unit_has_its_fixed_number(
    stage: Stage, tmp_path: Path, throttled: str, limit: RateLimit | None, expected: dict[int, int]
) -> None:
    """As without back-pressure, also where the size of messages is unknown."""
    write_grant(tmp_path, throttled, limit, LEASE)
    assert RateLimiter(stage, tmp_path).max_messages({0: 1 << 30, 1: 3}, 1.0) == expected


@pytest.mark.parametrize("every", [0.005, 0.02, 0.1, 0.4])
def test_what_is_admitted_comes_to_the_rate(stage: Stage, tmp_path: Path, every: float) -> None:
    """However long rounds take: 100 kB/s of messages of 500 bytes are 200 a second."""
    write_grant(tmp_path, stage.name, RateLimit(100e3, 500.0), LEASE)
    assert passes(RateLimiter(stage, tmp_path), 10.0, every) == pytest.approx(2_000, rel=0.06)


def test_messages_larger_than_the_rate_are_admitted_one_by_one_and_paid_off(stage: Stage, tmp_path: Path) -> None:
    """One of 1 MB every ten seconds at 100 kB/s: nothing starves."""
    write_grant(tmp_path, stage.name, RateLimit(100e3, 1e6), LEASE)
    assert 9 <= passes(RateLimiter(stage, tmp_path), 100.0, 0.05) <= 11


def test_a_rate_doubles_every_second_once_its_lease_has_ended(stage: Stage, tmp_path: Path) -> None:
    """Whoever granted it may be dead, or only late; a new one is obeyed at once."""
    grants = GrantReader(tmp_path, stage.name)
    write_grant(tmp_path, stage.name, RateLimit(100e3, 500.0), until=2.0)
    assert [grants.limit(at) for at in (1.9, 2.0, 3.0, 5.0)] == [RateLimit(100e3 * n, 500.0) for n in (1, 1, 2, 8)]
    assert grants.limit(30.0) is None
    assert RateLimiter(stage, tmp_path).max_messages({0: 5_000}, 30.0) == {0: ADMITTED}
    write_grant(tmp_path, stage.name, RateLimit(100e3, 500.0), until=39.0)
    assert grants.limit(31.0) == RateLimit(100e3, 500.0)
    write_grant(tmp_path, stage.name, None, until=39.0)
    assert grants.limit(31.1) is None


def test_a_credit_bounds_all_rounds_after_those_that_it_has_counted(stage: Stage, tmp_path: Path) -> None:
    """Without a rate, and however quickly rounds follow; the next credit says which of them it includes."""
    limiter = RateLimiter(stage, tmp_path)
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(10_000, after_round=4)), LEASE)
    assert admit(limiter, {0: 12}, 1.0, number=5) == 12
    assert admit(limiter, {0: 50}, 1.0, number=6) == 8
    assert admit(limiter, {0: 50}, 1.1, number=7) == 0
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(10_000, after_round=5)), LEASE)
    assert admit(limiter, {0: 50}, 1.2, number=7) == 12
    write_grant(tmp_path, stage.name, RateLimit(1e3, 500.0, Credit(10_000_000, after_round=7)), LEASE)
    assert admit(limiter, {0: 50}, 1.3, number=8) == 1  # the rate is lower


def test_a_message_larger_than_a_credit_is_admitted(stage: Stage, tmp_path: Path) -> None:
    """One, and no further one until there is room again: nothing starves."""
    limiter = RateLimiter(stage, tmp_path)
    write_grant(tmp_path, stage.name, RateLimit(None, 1e6, Credit(1, after_round=0)), LEASE)
    assert admit(limiter, {0: 5, 1: 5}, 1.0, number=1) == 1
    assert admit(limiter, {0: 5, 1: 5}, 1.1, number=2) == 0
    write_grant(tmp_path, stage.name, RateLimit(None, 1e6, Credit(-5, after_round=1)), LEASE)
    assert admit(limiter, {0: 5, 1: 5}, 1.2, number=2) == 0


def test_a_little_that_is_free_is_no_round_unless_it_is_all_that_waits(stage: Stage, tmp_path: Path) -> None:
    """Otherwise each round of the downstream would set free another small one, which costs almost as much."""
    limiter = RateLimiter(stage, tmp_path)
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(4_000, after_round=0, least=5_000)), LEASE)
    assert admit(limiter, {0: 50}, 1.0, number=1) == 0
    assert admit(limiter, {0: 5}, 1.0, number=1) == 5
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(6_000, after_round=1, least=5_000)), LEASE)
    assert admit(limiter, {0: 50}, 1.1, number=2) == 12


AGGREGATES = RoundCost(fixed=50e3, slope=0.5)


def test_rounds_of_a_stage_that_aggregates_wait_until_they_are_worth_it(stage: Stage, tmp_path: Path) -> None:
    """Half of what a round costs is for its messages, at least; in all it comes to the rate."""
    write_grant(tmp_path, stage.name, RateLimit(100e3, 500.0, round_cost=AGGREGATES), LEASE)
    limiter, costs = RateLimiter(stage, tmp_path), []
    for number in range(1, 1_001):
        if messages := admit(limiter, {0: 1 << 20}, number * 0.02, number):
            costs.append(AGGREGATES.of(messages * 500.0))
    assert sum(costs) == pytest.approx(100e3 * 20, rel=0.1)
    assert min(costs) >= 2 * AGGREGATES.fixed
    assert admit(limiter, {0: 1}, 21.5, 2_000) == 1  # all that waits


def test_a_fixed_cost_far_above_the_rate_delays_rounds_for_seconds_not_for_hours(stage: Stage, tmp_path: Path) -> None:
    """A stage may be granted the least rate while nothing is known of its downstream."""
    write_grant(tmp_path, stage.name, RateLimit(10e3, 500.0, round_cost=RoundCost(30e6, 0.5)), LEASE)
    limiter = RateLimiter(stage, tmp_path)
    starts = [at / 10 for at in range(300) if admit(limiter, {0: 1 << 20}, at / 10, at + 1)]
    assert 6 <= len(starts) <= 10


def test_any_credit_is_room_for_a_round_that_is_worth_its_fixed_cost(stage: Stage, tmp_path: Path) -> None:
    """A queue that is smaller than what one round sends must not make rounds smaller: that sends more."""
    limiter = RateLimiter(stage, tmp_path)
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(1, after_round=0), AGGREGATES), LEASE)
    assert admit(limiter, {0: 1_000}, 1.0, number=1) == 200
    assert admit(limiter, {0: 1_000}, 1.1, number=2) == 0


def test_a_credit_is_void_once_its_lease_has_ended(stage: Stage, tmp_path: Path) -> None:
    """What was freed is not counted any more."""
    write_grant(tmp_path, stage.name, RateLimit(None, 500.0, Credit(0, after_round=0)), until=2.0)
    limiter = RateLimiter(stage, tmp_path)
    assert limiter.max_messages({0: 5_000}, 2.0) == {0: 0}
    assert limiter.max_messages({0: 5_000}, 2.1) == {0: ADMITTED}


@given(
    st.floats(0.01, 1e6),
    st.dictionaries(st.integers(0, 9), st.integers(0, 10_000), min_size=1).filter(lambda each: sum(each.values()) > 0),
)
def test_messages_are_spread_by_what_waits(messages: float, waiting: dict[int, int]) -> None:
    """Never more than waits, at least one, and in all as many as were wanted."""
    shares = spread(messages, waiting)
    total = sum(waiting.values())
    assert all(0 <= shares[unit] <= waiting[unit] for unit in waiting)
    assert sum(shares.values()) == min(max(int(messages), 1), total)
    assert all(abs(shares[unit] - min(messages / total, 1) * waiting[unit]) <= 1 for unit in waiting)


def test_a_planner_plans_by_the_rate_and_plans_nothing_while_too_much_is_owed(stage: Stage, tmp_path: Path) -> None:
    """A round is reported before it ends, so that one which lasts is noticed; what was planned stays as it was."""
    log = MemoryLog({"lines": 2, stage.rounds: 1, stage.reports: 1})
    for number in range(100):
        log.put("lines", number % 2, b"x" * 500)
    now = [100.0]
    write_grant(tmp_path, stage.name, RateLimit(20e3, 250.0), LEASE)  # an offset in two has no message
    planner = Planner(stage, log, lambda: now[0], dict, admission_limit=RateLimiter(stage, tmp_path))
    first = planner.after(planner.begin())
    assert first is not None and first.messages == 12  # 0.15 s of 80 offsets a second
    assert read_planned(tmp_path, stage.name) == (PlannedRound(1, 100.0, 12),)
    now[0] += 0.01
    assert planner.after(first) is None
    now[0] += 0.5
    second = planner.after(first)
    assert second is not None and second.messages == pytest.approx(40, abs=2)
    restarted_planner = Planner(stage, log, lambda: now[0] + 50.0, dict, admission_limit=RateLimiter(stage, tmp_path))
    restarted_planner.begin()
    assert restarted_planner.after(first) == second
