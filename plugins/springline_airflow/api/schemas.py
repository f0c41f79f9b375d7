"""What the API takes and gives, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, Field

from springline.airflow.api.request_fields import RequestBody
from springline.spark_jobs.streaming.application.status import Seen
from springline.spark_jobs.streaming.backpressure.config import Control
from springline.spark_jobs.streaming.sql.expressions import ARROW
from springline.spark_jobs.streaming.tracking.completeness import Completeness
from springline.spark_jobs.streaming.tracking.replay.failures import Failure
from springline.spark_jobs.streaming.tracking.ring import Epochs
from springline.spark_jobs.streaming.windows.adhoc import Answer
from springline.spark_jobs.streaming.windows.registry import Registered

Answers = Literal["queries", "tracking", "join"]
_TYPES = {kind: name for name, kind in ARROW.items()}


class Sql(RequestBody):
    """A query's text."""

    sql: str = Field(min_length=1, max_length=20_000)


@dataclass(frozen=True)
class Stream(Seen):
    """A job at a moment, and its DAG; what else can be asked of it, below its own route; whether you may change it."""

    dag_id: str = ""
    answers: Sequence[Answers] = ()
    may_change: bool = False


class Streams(BaseModel):
    """Jobs at this moment."""

    streams: Sequence[Stream]


class Query(BaseModel):
    """A registered query; `since` is the version of the job's queries that gave it this text."""

    name: str
    sql: str
    since: int

    @staticmethod
    def of(query: Registered) -> Query:
        """A query of a registry."""
        return Query(name=query.name, sql=query.sql, since=query.since)


class Version(BaseModel):
    """The version of a job's queries; every change makes the next one."""

    version: int


class Queries(Version):
    """All queries of a job."""

    queries: Sequence[Query]


class OneQuery(Version):
    """One query of a job."""

    query: Query


class Results(BaseModel):
    """Results of queries, as the job has told them; the newest is the last one."""

    rows: Sequence[dict[str, Any]]


class Seconds(BaseModel):
    """Times from a record's reading to its completion, by share of the records; null where none was completed."""

    p50: float | None
    p90: float | None
    p99: float | None


class AckerTold(BaseModel):
    """What an acker holds and has completed, and the epoch of the ring that it goes by."""

    acker: int
    in_flight: int
    completed: int
    epoch: int


class Tracking(BaseModel):
    """How the records of a job are, as it last told, and the job's `state`.

    `again` counts records that were sent again, `gone` those that were given up. `lows` has the low-water marks: by
    partition, the offset below which every record is finished. `waits`: the source waits, since as many records are in
    flight as there may be. `still` says why time-outs stand still; empty where time goes on.
    """

    state: str
    in_flight: int
    completed: int
    again: int
    gone: int
    bytes: int
    seconds: Seconds
    lows: Mapping[int, int]
    ackers: Sequence[AckerTold]
    waits: bool
    still: str


class Throttle(BaseModel):
    """Who throttles whom, to bytes a second for the downstream or by a level, since when (seconds since 1970), why."""

    downstream: str
    upstream: str
    since: float
    why: str
    level: int
    rate: float | None


class Pressed(BaseModel):
    """A stage: bytes sent to it and not applied (`queue`) or not admitted (`waiting`), how long it would take for them.

    Bytes a second: `rate` that it may admit (null: all), `capacity` of it at work (null: not known), `arriving`,
    `applied`. `state` is level, throttled (by a stage downstream), or overloaded (it throttles others).
    """

    state: str
    queue: int
    waiting: int
    seconds: float | None
    rate: float | None
    capacity: float | None
    arriving: float
    applied: float
    throttled_by: Sequence[Throttle]
    throttles: Sequence[Throttle]


class BackPressureChoice(RequestBody):
    """What is to hold from now on; null: as before. `control` is for jobs with stages apart."""

    mode: str | None = None
    control: Control | None = None


class BackPressure(BaseModel):
    """The back-pressure that is chosen for a job, the job's `state`, and its stages as it last told.

    `control` is how signals travel to and from stages that are apart; null where there are none. `modes` are all that
    are installed, of which some are `baselines`, to compare with.

    By stage, whether the job ran or not: the direct `upstreams` that it may throttle, the topic that it `reads` where
    that is not the job's own, and that of its `results`.
    """

    state: str
    mode: str
    modes: Sequence[str]
    baselines: Sequence[str]
    control: Control | None
    upstreams: Mapping[str, Sequence[str]]
    reads: Mapping[str, str]
    results: Mapping[str, str]
    stages: Mapping[str, Pressed]


class Failed(BaseModel):
    """A record that was given up or could not be used: where it is in the source, why, when that was told, its text.

    `letter` is its place among the dead letters, `sent_again` when a person had it sent again.
    """

    letter: str = Field(examples=["0:17"])
    partition: int
    offset: int
    reason: str
    at: datetime
    content: str
    sent_again: datetime | None = None
    may_be_sent: bool = Field(description="Whether it can be sent again, by those who may change the job")

    @staticmethod
    def of(failure: Failure, sent_again: float | None, may_be_sent: bool) -> Failed:
        """A failure as it was read."""
        return Failed(
            **{**failure.as_json(), "at": datetime.fromtimestamp(failure.at, UTC)},
            sent_again=None if sent_again is None else datetime.fromtimestamp(sent_again, UTC),
            may_be_sent=may_be_sent,
        )


class Wanted(RequestBody):
    """Nothing but that it is wanted; JSON, since a form of another site cannot send that."""


class Failures(BaseModel):
    """Records that were not used; the newest is the last one."""

    failed: Sequence[Failed]


class Through(BaseModel):
    """Whether all records before the offsets `to` are through, by the `marks`; `missing` counts offsets that are not.

    All three are by partition; where nothing is missing, a partition is not named.
    """

    through: bool
    missing: Mapping[int, int]
    to: Mapping[int, int]
    marks: Mapping[int, int]

    @staticmethod
    def of(found: Completeness) -> Through:
        """How far a range is."""
        return Through(through=found.through, missing=found.missing, to=found.wanted, marks=found.marks)


class AckerInRing(BaseModel):
    """An acker that there can be; what it holds and has completed is null where it has told nothing yet."""

    acker: int
    in_ring: bool
    in_flight: int | None
    completed: int | None


class Ring(BaseModel):
    """The ring: its epoch, which every change counts up, and all ackers that it has `room` for."""

    epoch: int
    room: int
    ackers: Sequence[AckerInRing]

    @staticmethod
    def of(epochs: Epochs, told: Sequence[Mapping[str, int]]) -> Ring:
        """The ring in force, with what ackers have told."""
        known = {each["acker"]: each for each in told}
        ackers = [
            AckerInRing(
                acker=acker, in_ring=acker in epochs.circle.ackers,
                in_flight=known.get(acker, {}).get("in_flight"), completed=known.get(acker, {}).get("completed"),
            )
            for acker in range(epochs.room)
        ]  # fmt: skip
        return Ring(epoch=epochs.number, room=epochs.room, ackers=ackers)


class Column(BaseModel):
    """A column of an answer; `type` is int, float, text, bool or time."""

    name: str
    type: str


class Askable(BaseModel):
    """Slices that ad hoc queries are answered from: by some of the keys, of the rows that `where` lets in."""

    stream: str
    keys: Sequence[str]
    aggregates: Sequence[str]
    where: str
    seconds: float
    queries: Sequence[str]


class Askables(BaseModel):
    """What an ad hoc query can be asked now."""

    slices: Sequence[Askable]


class Answered(BaseModel):
    """The answer to an ad hoc query, and the slices [begin, end) that it covers: null where nothing is held."""

    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]
    begin: datetime | None
    end: datetime | None


def answered(found: Answer) -> dict[str, Any]:
    """An answer as plain values in the shape of `Answered`; written as results are, numbers that JSON lacks as null."""
    frame = pl.from_arrow(found.rows)
    assert isinstance(frame, pl.DataFrame)
    return {
        "columns": [{"name": f.name, "type": _TYPES.get(f.type, str(f.type))} for f in found.rows.schema],
        "rows": json.loads(frame.write_json()),
        "begin": _time(found.begin),
        "end": _time(found.end),
    }


def _time(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat()
