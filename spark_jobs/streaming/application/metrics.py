"""The metrics of streams, and how they are derived from the status of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from springline.persistence.monitoring.metric import Metric, MetricKind, MetricSample
from springline.spark_jobs.streaming.application.health import lag_seconds
from springline.spark_jobs.streaming.application.status import JobStatus

_STAGE = ("job", "stage")
_JOB = ("job",)

UP = Metric(
    "streams.up",
    MetricKind.GAUGE,
    "1",
    _JOB,
    "1 while the job runs and writes heartbeats; 0 if it failed, died or is silent",
)
RESTART_LIMIT_REACHED = Metric(
    "streams.restart_limit_reached",
    MetricKind.GAUGE,
    "1",
    _JOB,
    "1 if the restart limit was reached and the job stays down",
)
RESTARTS = Metric(
    "streams.restarts", MetricKind.COUNTER, "{restart}", _JOB, "Starts of an application by its DAG run after the first"
)
LAG_MESSAGES = Metric(
    "streams.lag.messages", MetricKind.GAUGE, "{message}", _STAGE, "Messages that the stage has not admitted yet"
)
LAG_SECONDS = Metric(
    "streams.lag.seconds", MetricKind.GAUGE, "s", _STAGE,
    "Age of the newest message that the stage has read, while it has lag; else 0",
)  # fmt: skip
ROUNDS = Metric("streams.rounds", MetricKind.GAUGE, "{round}", _STAGE, "Number of the newest round")
ROUND_AGE = Metric(
    "streams.rounds.age", MetricKind.GAUGE, "s", _STAGE, "Seconds since the last round ended, of a running job"
)
ROUND_SECONDS = Metric(
    "streams.rounds.seconds", MetricKind.GAUGE, "s", _STAGE, "Duration of the newest round, in its slowest unit"
)
ROWS = Metric("streams.rows", MetricKind.GAUGE, "{row}", _STAGE, "Rows since the first start of the job")
DEAD_LETTERS = Metric(
    "streams.dead_letters", MetricKind.GAUGE, "{row}", _STAGE, "Dead letters since the first start of the job"
)
STATE_BYTES = Metric("streams.state.bytes", MetricKind.GAUGE, "By", _STAGE, "Bytes of the states of all units")
TASK_MEMORY = Metric(
    "streams.task.memory", MetricKind.GAUGE, "By", _STAGE, "Resident memory of the stage's largest worker"
)
IN_FLIGHT = Metric(
    "streams.roots.in_flight", MetricKind.GAUGE, "{root}", _JOB, "Tracked records that are not completed yet"
)
FAILED = Metric(
    "streams.roots.failed",
    MetricKind.GAUGE,
    "{root}",
    _JOB,
    "Tracked records that failed permanently since the first start of the job",
)
RETRIED = Metric(
    "streams.roots.retried",
    MetricKind.GAUGE,
    "{root}",
    _JOB,
    "Tracked records that were retried since the first start of the job",
)
IMBALANCE = Metric(
    "streams.join.imbalance",
    MetricKind.GAUGE,
    "1",
    _JOB,
    "Greatest deviation of a join unit's load from the mean, as a share of the mean",
)
MIGRATIONS = Metric(
    "streams.join.migrations", MetricKind.GAUGE, "{piece}", _JOB, "Migrations of stored tuples in progress"
)
EPOCHS = Metric(
    "streams.join.epoch",
    MetricKind.GAUGE,
    "{epoch}",
    _JOB,
    "Epoch of the routing table; it increases with every change",
)
QUEUE_BYTES = Metric(
    "streams.backpressure.queue", MetricKind.GAUGE, "By", _STAGE, "Bytes sent to the stage and not yet applied"
)
QUEUE_SECONDS = Metric(
    "streams.backpressure.seconds", MetricKind.GAUGE, "s", _STAGE, "Seconds to process them at the measured rate"
)
RATE = Metric(
    "streams.backpressure.rate",
    MetricKind.GAUGE,
    "By/s",
    _STAGE,
    "Bytes per second that the stage may admit, if limited",
)
THROTTLED = Metric(
    "streams.backpressure.throttled", MetricKind.GAUGE, "1", _STAGE, "1 while another stage throttles this one"
)

METRICS = (
    UP, RESTART_LIMIT_REACHED, RESTARTS, LAG_MESSAGES, LAG_SECONDS, ROUNDS, ROUND_AGE, ROUND_SECONDS, ROWS,
    DEAD_LETTERS, STATE_BYTES, TASK_MEMORY, IN_FLIGHT, FAILED, RETRIED, IMBALANCE, MIGRATIONS, EPOCHS,
    QUEUE_BYTES, QUEUE_SECONDS, RATE, THROTTLED,
)  # fmt: skip

_MONITORED_STATES = (
    "starting",
    "running",
    "silent",
    "failed",
    "dead",
)  # a job that was stopped, or never ran, is not down


def readings(status: JobStatus, now: float) -> list[MetricSample]:
    """Return all gauges of a job from its status; `now` in seconds since 1970.

    For a job that is down, only `UP` is returned.
    """
    job = {"job": status.job}
    if status.state not in _MONITORED_STATES:
        return []
    if status.state not in ("starting", "running"):
        return [MetricSample(UP, 0, job)]
    samples = [MetricSample(UP, 1, job)]
    for stage, fields in status.stages.items():
        samples += stage_samples({**job, "stage": stage}, fields, now)
    if tracking := status.tracking:
        samples += [
            MetricSample(IN_FLIGHT, tracking["in_flight"], job), MetricSample(FAILED, tracking["failed"], job),
            MetricSample(RETRIED, tracking["retried"], job),
        ]  # fmt: skip
    if routing := status.routing:
        samples += [
            MetricSample(IMBALANCE, routing["imbalance"], job), MetricSample(MIGRATIONS, routing["migrations"], job),
            MetricSample(EPOCHS, routing["epoch"], job),
        ]  # fmt: skip
    for stage, fields in status.backpressure.get("stages", {}).items():
        samples += queue_samples({**job, "stage": stage}, fields)
    return samples


def stage_samples(tags: Mapping[str, str], fields: Mapping[str, Any], now: float) -> Iterator[MetricSample]:
    if not fields["round"]:
        return  # no round yet
    counts = fields["counts"]
    yield MetricSample(LAG_MESSAGES, fields["lag"], tags)
    yield MetricSample(LAG_SECONDS, lag_seconds(fields, now), tags)
    yield MetricSample(ROUNDS, fields["round"], tags)
    yield MetricSample(ROUND_AGE, max(now - fields["round_ended_at"], 0.0), tags)
    yield MetricSample(ROUND_SECONDS, fields["seconds"], tags)
    yield MetricSample(STATE_BYTES, fields["state_bytes"], tags)
    yield MetricSample(TASK_MEMORY, fields["task_memory"], tags)
    if "rows" in counts:
        yield MetricSample(ROWS, counts["rows"], tags)
    yield MetricSample(DEAD_LETTERS, counts.get("dead_letters", 0), tags)


def queue_samples(tags: Mapping[str, str], fields: Mapping[str, Any]) -> Iterator[MetricSample]:
    yield MetricSample(QUEUE_BYTES, fields["queue"], tags)
    if fields["seconds"] is not None:
        yield MetricSample(QUEUE_SECONDS, fields["seconds"], tags)
    if fields["rate"] is not None:
        yield MetricSample(RATE, fields["rate"], tags)
    yield MetricSample(THROTTLED, float(bool(fields["throttled_by"])), tags)
