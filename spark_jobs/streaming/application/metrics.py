"""The metrics of streams, and how they are read from what a job tells of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from springline.persistence.monitoring.metric import Kind, Metric, Reading
from springline.spark_jobs.streaming.application.status import Seen

_STAGE = ("job", "stage")
_JOB = ("job",)

UP = Metric(
    "streams.up", Kind.GAUGE, "1", _JOB, "1 while the job runs and beats; 0 once it failed, died or fell silent"
)
GIVEN_UP = Metric("streams.given_up", Kind.GAUGE, "1", _JOB, "1 once a job was restarted too often, and is not again")
RESTARTS = Metric(
    "streams.restarts", Kind.COUNTER, "{restart}", _JOB, "Starts of an application by its DAG run after the first"
)
LAG_MESSAGES = Metric(
    "streams.lag.messages", Kind.GAUGE, "{message}", _STAGE, "Messages that the stage has not admitted yet"
)
LAG_SECONDS = Metric(
    "streams.lag.seconds", Kind.GAUGE, "s", _STAGE,
    "Age of the newest message that the stage has read, while there are others behind it; else 0",
)  # fmt: skip
ROUNDS = Metric("streams.rounds", Kind.GAUGE, "{round}", _STAGE, "Number of the newest round")
ROUND_AGE = Metric("streams.rounds.age", Kind.GAUGE, "s", _STAGE, "Seconds since a round ended, of a job that runs")
ROUND_SECONDS = Metric(
    "streams.rounds.seconds", Kind.GAUGE, "s", _STAGE, "What the newest round took, in its slowest unit"
)
ROWS = Metric("streams.rows", Kind.GAUGE, "{row}", _STAGE, "Rows since the job began")
DEAD = Metric("streams.dead", Kind.GAUGE, "{row}", _STAGE, "Rows among the dead letters since the job began")
STATE_BYTES = Metric("streams.state.bytes", Kind.GAUGE, "By", _STAGE, "Bytes of the states of all units")
IN_FLIGHT = Metric("streams.roots.in_flight", Kind.GAUGE, "{root}", _JOB, "Tracked records that are not through yet")
FAILED = Metric("streams.roots.failed", Kind.GAUGE, "{root}", _JOB, "Tracked records given up since the job began")
RETRIED = Metric("streams.roots.retried", Kind.GAUGE, "{root}", _JOB, "Tracked records sent again since the job began")
IMBALANCE = Metric(
    "streams.join.imbalance",
    Kind.GAUGE,
    "1",
    _JOB,
    "The greatest distance of a unit of a join from the mean load, as a share of it",
)
MOVES = Metric("streams.join.moves", Kind.GAUGE, "{piece}", _JOB, "Pieces of stored tuples that are being moved")
EPOCHS = Metric(
    "streams.join.epoch", Kind.GAUGE, "{epoch}", _JOB, "Number of the routing table: it grows with every change"
)
QUEUE_BYTES = Metric(
    "streams.backpressure.queue", Kind.GAUGE, "By", _STAGE, "Bytes sent to the stage and not yet applied"
)
QUEUE_SECONDS = Metric("streams.backpressure.seconds", Kind.GAUGE, "s", _STAGE, "What working them off would take")
RATE = Metric(
    "streams.backpressure.rate",
    Kind.GAUGE,
    "By/s",
    _STAGE,
    "Bytes a second that the stage may admit, where there is a bound",
)
THROTTLED = Metric(
    "streams.backpressure.throttled", Kind.GAUGE, "1", _STAGE, "1 while another stage throttles this one"
)

METRICS = (
    UP, GIVEN_UP, RESTARTS, LAG_MESSAGES, LAG_SECONDS, ROUNDS, ROUND_AGE, ROUND_SECONDS, ROWS, DEAD, STATE_BYTES,
    IN_FLIGHT, FAILED, RETRIED, IMBALANCE, MOVES, EPOCHS, QUEUE_BYTES, QUEUE_SECONDS, RATE, THROTTLED,
)  # fmt: skip

_WANTED = ("starting", "running", "silent", "failed", "dead")  # a job that was stopped, or never ran, is not down


def readings(seen: Seen, now: float) -> list[Reading]:
    """All gauges of a job as it was seen; `now` in seconds since 1970.

    Of a job that does not run there is only that.
    """
    job = {"job": seen.job}
    if seen.state not in _WANTED:
        return []
    if seen.state not in ("starting", "running"):
        return [Reading(UP, 0, job)]
    found = [Reading(UP, 1, job)]
    for stage, told in seen.stages.items():
        found += _of_stage({**job, "stage": stage}, told, now)
    if tracking := seen.tracking:
        found += [
            Reading(IN_FLIGHT, tracking["in_flight"], job), Reading(FAILED, tracking["gone"], job),
            Reading(RETRIED, tracking["again"], job),
        ]  # fmt: skip
    if routing := seen.routing:
        found += [
            Reading(IMBALANCE, routing["imbalance"], job), Reading(MOVES, routing["moves"], job),
            Reading(EPOCHS, routing["epoch"], job),
        ]  # fmt: skip
    for stage, told in seen.backpressure.get("stages", {}).items():
        found += _of_queue({**job, "stage": stage}, told)
    return found


def _of_stage(tags: Mapping[str, str], told: Mapping[str, Any], now: float) -> Iterator[Reading]:
    if not told["round"]:
        return  # it has had none yet
    counts = told["counts"]
    waits = told["behind"] and told["newest"]
    yield Reading(LAG_MESSAGES, told["behind"], tags)
    yield Reading(LAG_SECONDS, max(now - told["newest"], 0.0) if waits else 0.0, tags)
    yield Reading(ROUNDS, told["round"], tags)
    yield Reading(ROUND_AGE, max(now - told["at"], 0.0), tags)
    yield Reading(ROUND_SECONDS, told["seconds"], tags)
    yield Reading(STATE_BYTES, told["state_bytes"], tags)
    if "rows" in counts:
        yield Reading(ROWS, counts["rows"], tags)
    yield Reading(DEAD, counts.get("dead", 0), tags)


def _of_queue(tags: Mapping[str, str], told: Mapping[str, Any]) -> Iterator[Reading]:
    yield Reading(QUEUE_BYTES, told["queue"], tags)
    if told["seconds"] is not None:
        yield Reading(QUEUE_SECONDS, told["seconds"], tags)
    if told["rate"] is not None:
        yield Reading(RATE, told["rate"], tags)
    yield Reading(THROTTLED, float(bool(told["throttled_by"])), tags)
