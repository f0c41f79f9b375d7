"""What the API takes and gives, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl
from pydantic import BaseModel, Field

from spark_jobs.streaming.watching import Seen
from spark_jobs.streaming.windows.adhoc import Answer
from spark_jobs.streaming.windows.expressions import ARROW
from spark_jobs.streaming.windows.registry import Registered

_TYPES = {kind: name for name, kind in ARROW.items()}


class Sql(BaseModel):
    """A query's text."""

    sql: str = Field(min_length=1, max_length=20_000)


class Streams(BaseModel):
    """Jobs at this moment."""

    streams: Sequence[Seen]


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


class Column(BaseModel):
    """A column of an answer; `type` is int, float, text, bool or time."""

    name: str
    type: str


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
