"""Requests and responses of the API, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from springline.airflow.api.request_fields import RequestBody
from springline.spark_jobs.streaming.application.lag_history import LagPoint
from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.backpressure.config import ChannelKind
from springline.spark_jobs.streaming.runtime.json_lines import json_lines
from springline.spark_jobs.streaming.sources.field_types import type_name
from springline.spark_jobs.streaming.tracking.completeness import Completeness
from springline.spark_jobs.streaming.tracking.ring import RingHistory
from springline.spark_jobs.streaming.windows.adhoc import Answer
from springline.spark_jobs.streaming.windows.registry import RegisteredQuery

Capability = Literal["queries", "tracking", "join"]


class Sql(RequestBody):
    """The text of a query."""

    sql: str = Field(min_length=1, max_length=20_000)


@dataclass(frozen=True)
class StreamDetail(JobStatus):
    """The status of a job, its DAG, the routes below its own (`capabilities`), and whether you may change the job.

    `history` is the recent part of its lag history that was requested, the newest point last.
    """

    dag_id: str = ""
    capabilities: Sequence[Capability] = ()
    may_change: bool = False
    history: Sequence[LagPoint] = ()


class StreamHistory(BaseModel):
    """The lag and throughput of a job in the last hour, a point every `interval` seconds; the newest is the last."""

    interval: float
    points: Sequence[LagPoint]


class StreamList(BaseModel):
    """The current status of jobs, the worst health first."""

    streams: Sequence[StreamDetail]


class QuerySummary(BaseModel):
    """A registered query; `since` is the version of the job's queries that introduced this text."""

    name: str
    sql: str
    since: int

    @staticmethod
    def of(query: RegisteredQuery) -> QuerySummary:
        """Return the summary of a query of a registry."""
        return QuerySummary(name=query.name, sql=query.sql, since=query.since)


class RegistryVersion(BaseModel):
    """The version of a job's queries; every change increments it."""

    version: int


class QueryList(RegistryVersion):
    """All queries of a job."""

    queries: Sequence[QuerySummary]


class QueryDetail(RegistryVersion):
    """One query of a job."""

    query: QuerySummary


class Results(BaseModel):
    """Results of queries, as the job emitted them; the newest is the last one."""

    rows: Sequence[dict[str, Any]]


class CompletionLatency(BaseModel):
    """Seconds from reading a record to its completion, as percentiles; null if none was completed."""

    p50: float | None
    p90: float | None
    p99: float | None


class AckerStatus(BaseModel):
    """The records in flight and completed of an acker, and the epoch of the ring that it uses."""

    acker: int
    in_flight: int
    completed: int
    epoch: int


class TrackingStatus(BaseModel):
    """Tracking of a job's records at its last report, and the job's `state`.

    `retried` counts records that were sent again, `failed` those that failed for good. `low_watermarks`: by partition,
    the offset below which every record is finished. `source_paused`: the source admits no records, because the limit of
    records in flight is reached. `pause_reason` says why timeouts are paused; empty if they are not.
    """

    state: str
    in_flight: int
    completed: int
    retried: int
    failed: int
    bytes: int
    seconds: CompletionLatency
    low_watermarks: Mapping[int, int]
    ackers: Sequence[AckerStatus]
    source_paused: bool
    pause_reason: str


class StageThrottle(BaseModel):
    """A throttle from `downstream` to `upstream`: to `rate` bytes per second or by a level, why, and since when.

    `since` is in seconds since 1970.
    """

    downstream: str
    upstream: str
    since: float
    reason: str
    throttle_level: int
    rate: float | None


class StagePressure(BaseModel):
    """A stage: bytes sent to it and not applied (`queue`) or not admitted (`not_admitted`), and seconds to drain them.

    In bytes per second: `rate` is what it may admit (null: no limit), `capacity` what it processes while busy (null:
    not known), `arriving` and `applied` the measured rates. `busy` is the share of its capacity that it uses (null: not
    known). `state` is normal, throttled (by a downstream stage), or overloaded (it throttles others).
    """

    state: str
    queue: int
    not_admitted: int
    seconds: float | None
    rate: float | None
    capacity: float | None
    arriving: float
    applied: float
    busy: float | None
    throttled_by: Sequence[StageThrottle]
    throttles: Sequence[StageThrottle]

    @staticmethod
    def of(stage: Mapping[str, Any]) -> StagePressure:
        """Return the response for a stage of a heartbeat."""
        capacity = stage["capacity"]
        return StagePressure(**stage, busy=min(stage["applied"] / capacity, 1.0) if capacity else None)


class BackPressureChoice(RequestBody):
    """The back-pressure settings to change; null: unchanged.

    `signal_channel` applies to jobs with stages in a separate application.
    """

    mode: str | None = None
    signal_channel: ChannelKind | None = None


class BackPressure(BaseModel):
    """The back-pressure settings of a job, the job's `state`, and its stages at its last report.

    `signal_channel` is the channel of signals to and from stages in a separate application; null if there are none.
    `modes` are all that are installed; those in `baselines` exist only for comparison.

    By stage, whether the job ran or not: the direct `upstreams` that it may throttle, the topic that it `reads` if that
    is not the job's own, and the topic of its `results`. `bottleneck` is the stage that slows the job down, or empty.
    """

    state: str
    mode: str
    modes: Sequence[str]
    baselines: Sequence[str]
    signal_channel: ChannelKind | None
    upstreams: Mapping[str, Sequence[str]]
    reads: Mapping[str, str]
    results: Mapping[str, str]
    stages: Mapping[str, StagePressure]
    bottleneck: str


class Completion(BaseModel):
    """Whether all records before `target_offsets` are completed, according to `low_watermarks`.

    `missing` counts the offsets that are not. All three are by partition; a partition with nothing missing is not
    listed in `missing`.
    """

    is_complete: bool
    missing: Mapping[int, int]
    target_offsets: Mapping[int, int]
    low_watermarks: Mapping[int, int]

    @staticmethod
    def of(completeness: Completeness) -> Completion:
        """Return the response for the completeness of a range."""
        return Completion(
            is_complete=completeness.is_complete,
            missing=completeness.missing,
            target_offsets=completeness.target_offsets,
            low_watermarks=completeness.low_watermarks,
        )


class AckerInRing(BaseModel):
    """A possible acker; its counts are null if it has not reported yet."""

    acker: int
    in_ring: bool
    in_flight: int | None
    completed: int | None


class RingStatus(BaseModel):
    """The ring: its epoch, which every change increments, and all `max_ackers` possible ackers."""

    epoch: int
    max_ackers: int
    ackers: Sequence[AckerInRing]

    @staticmethod
    def of(epochs: RingHistory, acker_gauges: Sequence[Mapping[str, int]]) -> RingStatus:
        """Return the ring in force, with the counts that ackers reported."""
        gauges_by_acker = {each["acker"]: each for each in acker_gauges}
        ackers = [
            AckerInRing(
                acker=acker, in_ring=acker in epochs.ring.ackers,
                in_flight=gauges_by_acker.get(acker, {}).get("in_flight"),
                completed=gauges_by_acker.get(acker, {}).get("completed"),
            )
            for acker in range(epochs.max_ackers)
        ]  # fmt: skip
        return RingStatus(epoch=epochs.epoch, max_ackers=epochs.max_ackers, ackers=ackers)


class AnswerColumn(BaseModel):
    """A column of an answer; `type` is int, float, text, bool or time."""

    name: str
    type: str


class AdhocSlices(BaseModel):
    """Slices that ad hoc queries are answered from: grouped by `keys`, of the rows that match `where`."""

    stream: str
    keys: Sequence[str]
    aggregates: Sequence[str]
    where: str
    seconds: float
    queries: Sequence[str]


class AdhocSliceList(BaseModel):
    """The slices from which ad hoc queries can be answered now."""

    slices: Sequence[AdhocSlices]


class AdhocAnswer(BaseModel):
    """The answer to an ad hoc query, and the range [begin, end) of its slices: null if no slices are kept."""

    columns: Sequence[AnswerColumn]
    rows: Sequence[dict[str, Any]]
    begin: datetime | None
    end: datetime | None


def adhoc_answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values in the shape of `AdhocAnswer`.

    Values are encoded as in results.
    """
    lines = b"".join(map(json_lines, answer.rows.to_batches())).splitlines()
    return {
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in answer.rows.schema],
        "rows": [json.loads(line) for line in lines],
        "begin": _time(answer.begin),
        "end": _time(answer.end),
    }


def _time(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat()
