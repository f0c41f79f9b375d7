"""The health of a job: which rule decides, the sentence that says why, and since when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from springline.persistence.monitoring.metric import by_name
from springline.persistence.monitoring.rules import evaluate_rules, read_rules
from springline.spark_jobs.streaming.application.health import (
    DRAIN_SECONDS,
    LAG_SECONDS,
    RECOVERED_SHARE,
    ROUND_AGE_SECONDS,
    Health,
    HealthThresholds,
    JobHealth,
    bottleneck_of,
    health_of,
    running_health,
)
from springline.spark_jobs.streaming.application.health_record import HealthRecord
from springline.spark_jobs.streaming.application.health_thresholds import read_thresholds
from springline.spark_jobs.streaming.application.metrics import METRICS, readings
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.job_folder import JobFolder

NOW = 1_000.0
RULES = Path(__file__).resolve().parents[4] / "alerts.toml"


def stage(lag: int = 0, ended: float = NOW - 0.3, newest: float = NOW - 1, **more: Any) -> dict[str, Any]:
    """A stage as the heartbeat has it."""
    return {"round": 7, "round_ended_at": ended, "counts": {}, "state_bytes": 0, "task_memory": 0, "seconds": 0.1,
            "newest_timestamp": newest, "lag": lag, **more}  # fmt: skip


def pressed(seconds: float | None, throttles: tuple[str, ...] = (), by: tuple[str, ...] = ()) -> dict[str, Any]:
    """A stage as back-pressure reports it."""
    return {"state": "", "queue": 1, "seconds": seconds, "rate": None,
            "throttles": [{"upstream": name} for name in throttles],
            "throttled_by": [{"downstream": name} for name in by]}  # fmt: skip


def beating(stages: dict[str, Any], queues: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A heartbeat of now."""
    return {"started_at": 1.0, "heartbeat_at": NOW, "stages": stages, "backpressure": {"stages": queues or {}}, **more}


OVERLOADED = beating(
    {"map": stage(4_810), "reduce": stage()},
    {"map": pressed(23.0, by=("reduce",)), "reduce": pressed(1.4, throttles=("map",))},
)


@pytest.mark.parametrize(
    ("heartbeat", "health", "reason"),
    [
        (OVERLOADED, Health.LAGGING, "4,810 messages behind, 23 s to drain: reduce is overloaded and throttles map"),
        (beating({"map": stage()}), Health.OK, "no lag"),
        (beating({"map": stage(12)}, {"map": pressed(0.2)}), Health.OK, "12 messages behind, 200 ms to drain"),
        (
            beating({"map": stage(3, newest=NOW - LAG_SECONDS - 1)}),
            Health.LAGGING,
            "3 messages behind, the newest that was read is 61 s old",
        ),
        (beating({"map": stage(0, newest=1.0)}, {"map": pressed(2 * DRAIN_SECONDS)}), Health.OK, "no lag"),
        (beating({"map": stage(ended=1.0)}, started_at=NOW - 5), Health.OK, "no lag"),
    ],
    ids=["overloaded", "idle", "fast enough", "old messages", "queued between stages only", "just started"],
)
def test_a_job_that_is_far_behind_lags_and_says_why(heartbeat: dict[str, Any], health: Health, reason: str) -> None:
    """By the time to drain, or the age of what it read where its rate is unknown; without lag it is ok."""
    decided = running_health(heartbeat, NOW)
    assert (decided.health, decided.reason) == (health, reason)


def test_a_stage_that_completes_no_round_stalls_its_job() -> None:
    """Since its last round; a paused stage does not."""
    ended = NOW - ROUND_AGE_SECONDS - 15
    decided = running_health(beating({"map": stage(), "reduce": stage(ended=ended)}), NOW)
    assert decided == JobHealth(Health.STALLED, "stage reduce has completed no round for 75 s", ended)
    assert running_health(beating({"map": stage(ended=ended, paused=True)}), NOW).health is Health.OK


def test_health_counts_from_its_first_moment_and_survives_an_oscillation() -> None:
    """A lagging job is ok once it is well below the threshold."""
    first = running_health(OVERLOADED, NOW)
    almost = beating({"map": stage(9)}, {"map": pressed(DRAIN_SECONDS * (RECOVERED_SHARE + 0.1))})
    assert running_health(almost, NOW).health is Health.OK
    second_decision = running_health(almost, NOW + 20, previous=first)
    assert (second_decision.health, second_decision.since) == (Health.LAGGING, NOW)
    over = running_health(beating({"map": stage(9)}, {"map": pressed(1.0)}), NOW + 25, previous=second_decision)
    assert (over.health, over.since) == (Health.OK, NOW + 25)


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        ("never started", {}, JobHealth(Health.NEVER_STARTED, "no application of it has run yet")),
        ("stopped", {"heartbeat_at": 5.0}, JobHealth(Health.STOPPED, "it was asked to stop", 5.0)),
        ("stopped", {"heartbeat_at": 5.0, "error": "its lease ended"}, JobHealth(Health.STOPPED, "its lease ended", 5)),
        (
            "starting",
            {"started_at": 4.0, "phases": [["loading its code", 3.0], ["starting Spark", 4.5]]},
            JobHealth(Health.STARTING, "starting Spark", 4.0),
        ),
        ("failed", {"heartbeat_at": 5.0, "error": "no topic"}, JobHealth(Health.FAILED, "no topic", 5.0)),
        ("silent", {"heartbeat_at": NOW - 40}, JobHealth(Health.STALLED, "no heartbeat for 40 s", NOW - 40)),
    ],
)
def test_a_job_that_is_down_has_the_health_of_its_state(state: str, more: dict[str, Any], expected: JobHealth) -> None:
    """Since its last heartbeat."""
    assert health_of(state, more, NOW) == expected


def test_a_process_that_ended_without_a_word_has_failed() -> None:
    """And the reason names where to look."""
    decided = health_of("dead", {"heartbeat_at": 5.0, "error": ""}, NOW)
    assert (decided.health, decided.since) == (Health.FAILED, 5.0) and "log" in decided.reason


def test_the_last_overloaded_stage_is_the_bottleneck() -> None:
    """One that is throttled itself only passes it on; without throttles it is the longest queue."""
    chain = {"a": pressed(9.0, by=("b",)), "b": pressed(2.0, ("a",), ("c",)), "c": pressed(1.5, ("b",))}
    assert bottleneck_of(chain) == "c"
    assert bottleneck_of({"a": pressed(0.1), "b": pressed(3.0)}) == "b"
    assert bottleneck_of({"a": pressed(0.1), "b": pressed(None)}) == bottleneck_of({}) == ""


def test_a_running_job_is_as_it_recorded_itself(tmp_path: Path) -> None:
    """With its own thresholds and since when, which a reader cannot know."""
    folder = JobFolder(tmp_path / "job")
    recorded = JobHealth(Health.LAGGING, "5 messages behind", 900.0)
    with folder.application_lock():
        folder.write_heartbeat({**OVERLOADED, "state": "running", "error": "", "pid": 1, "health": recorded.as_json()})
        status = read_status("job", folder, NOW + 1)
    assert (status.health, status.health_reason, status.health_since) == ("lagging", "5 messages behind", 900.0)
    assert read_status("job", folder, NOW + 1).health is Health.FAILED


def test_the_thresholds_are_those_of_the_alert_rules(tmp_path: Path) -> None:
    """Of this job; a file that cannot be read changes nothing."""
    assert read_thresholds(RULES, "flights") == HealthThresholds(LAG_SECONDS, ROUND_AGE_SECONDS)
    rules = tmp_path / "alerts.toml"
    rules.write_text(
        '[a]\nmetric = "streams.lag.seconds"\nabove = 20\nseverity = "info"\nsummary = "x"\n'
        '[b]\nmetric = "streams.lag.seconds"\nabove = 5\nseverity = "info"\nsummary = "x"\nwhere = { job = "other" }\n'
    )
    assert read_thresholds(rules, "flights") == HealthThresholds(20.0)
    assert read_thresholds(rules, "other") == HealthThresholds(5.0)
    rules.write_text("[")
    assert read_thresholds(rules, "flights") == HealthThresholds()


def test_a_changed_rule_counts_from_the_next_heartbeat(tmp_path: Path) -> None:
    """A job that runs for weeks does not have to be restarted."""
    rules = tmp_path / "alerts.toml"
    record = HealthRecord("job", rules)
    late = beating({"map": stage(3, newest=NOW - 30)})
    assert record.update(late).health is Health.OK
    rules.write_text('[a]\nmetric = "streams.lag.seconds"\nabove = 20\nseverity = "info"\nsummary = "x"\n')
    assert record.update(late).health is Health.LAGGING


@pytest.mark.parametrize("age", [0.0, 59.0, 61.0, 300.0])
def test_no_alert_is_active_about_a_stream_whose_health_is_ok(age: float) -> None:
    """By the rules that are delivered."""
    stages = {"map": stage(3, newest=NOW - age, ended=NOW - age)}
    rules = [rule for rule in read_rules(RULES, by_name(METRICS)) if rule.metric.name.startswith("streams.")]
    samples = readings(JobStatus("job", "running", started_at=1.0, stages=stages), NOW)
    alerts = evaluate_rules(rules, samples, (), NOW).active_alerts
    assert bool(alerts) == (running_health(beating(stages), NOW).health is not Health.OK)
