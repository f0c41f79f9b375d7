"""The tables of the catalog, and the database's clock."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    and_,
    literal,
    not_,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from springline.persistence.model.dataset import DatasetStatus

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite auto-increments only an INTEGER key


class db_now(FunctionElement):
    """The database's clock in seconds since 1970: the one clock that all workers share."""

    type = Float()
    inherit_cache = True


@compiles(db_now, "sqlite")
def _sqlite_now(element: Any, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(db_now, "postgresql")
def _postgresql_now(element: Any, compiler: Any, **kw: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


generation = Table(
    "generation",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("path", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("phase", String, nullable=False),
    Column("cache", String, nullable=False),
    Column("under", String, nullable=False),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("rows", BigInteger),
    Column("checksum", String, nullable=False, default=""),
    Column("digest", String, nullable=False, default=""),
    Column("strategy", String, nullable=False),
    Column("persist_requested", Boolean, nullable=False),
    Column("checkpoint", Boolean, nullable=False, default=False),
    Column("pinned", Boolean, nullable=False, default=False),
    Column("superseded", Boolean, nullable=False, default=False),
    Column("reads", Integer, nullable=False, default=0),
    Column("operation", String),  # its name; NULL if no operation is recorded
    Column("version", String),
    Column("params", JSON(none_as_null=True)),
    Column("dag_id", String, nullable=False, default=""),
    Column("run_id", String, nullable=False, default=""),
    Column("task_id", String, nullable=False, default=""),
    Column("compute_seconds", Float),
    Column("report", JSON(none_as_null=True)),
    Column("created_at", Float, nullable=False),
    Column("committed_at", Float),
    Column("commit_number", BigInteger),  # in the order of commits, across all paths
    Column("persisted_at", Float),
    Column("last_read_at", Float),
    # the queue
    Column("expedited", Boolean, nullable=False, default=False),
    Column("score", Float, nullable=False, default=0.0),
    Column("not_before", Float, nullable=False, default=0.0),
    Column("lease_owner", String, nullable=False, default=""),
    Column("lease_number", BigInteger, nullable=False, default=0),
    Column("lease_until", Float),
    Column("claimed_at", Float),
    Column("sent_bytes", BigInteger, nullable=False, default=0),  # since the claim, as its worker last reported
    Column("method", String),
    Column("predicted_seconds", Float),
    Column("actual_seconds", Float),
    Column("attempts", Integer, nullable=False, default=0),
    Column("error", String, nullable=False, default=""),
    # locations, relative to the root of each backend
    Column("cache_location", String, nullable=False, default=""),
    Column("under_location", String, nullable=False, default=""),
    Column("under_checksum", String, nullable=False, default=""),
    UniqueConstraint("path", "generation", name="uq_generation_path"),
)


def _equals(column: Column[str], value: str) -> ColumnElement[bool]:
    """Return `column = 'value'` as a literal: a database uses a partial index only for such a condition."""
    return column == literal(value, literal_execute=True)


is_committed = _equals(generation.c.phase, "committed")
is_open = _equals(generation.c.phase, "open")
is_cached = _equals(generation.c.cache, "present")
is_copying = _equals(generation.c.under, "copying")
is_waiting = and_(generation.c.persist_requested, _equals(generation.c.under, "none"), is_committed)
is_persisted = _equals(generation.c.under, "present")
is_unpersisted = and_(not_(is_persisted), is_committed)
is_superseded = and_(generation.c.superseded, is_committed)


def may_have_status(status: DatasetStatus) -> ColumnElement[bool]:
    """Return the condition that a generation has this status, as far as its own columns say; see `Dataset.status`."""
    is_evicted = _equals(generation.c.cache, "evicted")
    is_lost = _equals(generation.c.cache, "lost")
    conditions = {
        DatasetStatus.WRITING: is_open,
        DatasetStatus.CACHED: and_(is_unpersisted, is_cached, not_(is_copying)),
        DatasetStatus.PERSISTING: and_(is_committed, is_cached, is_copying),
        DatasetStatus.PERSISTED: and_(is_committed, is_persisted, not_(is_evicted)),
        DatasetStatus.EVICTED: and_(is_committed, is_evicted),
        DatasetStatus.LOST: and_(is_unpersisted, is_lost),
        DatasetStatus.IRRECOVERABLE: and_(is_unpersisted, not_(is_cached)),
        DatasetStatus.RETIRED: _equals(generation.c.phase, "retired"),
        DatasetStatus.ABANDONED: _equals(generation.c.phase, "abandoned"),
    }
    return conditions[status]


Index(
    "ix_generation_queue",
    generation.c.expedited.desc(),
    generation.c.score.desc(),
    generation.c.id,
    sqlite_where=is_waiting,
    postgresql_where=is_waiting,
)
Index(
    "ix_generation_lease",
    generation.c.lease_until,
    sqlite_where=is_copying,
    postgresql_where=is_copying,
)
Index(
    "ix_generation_cached",
    generation.c.bytes,
    sqlite_where=is_cached,
    postgresql_where=is_cached,
)
Index("ix_generation_unsettled", generation.c.id, sqlite_where=is_unpersisted, postgresql_where=is_unpersisted)
Index(
    "ix_generation_open",
    generation.c.id,
    sqlite_where=is_open,
    postgresql_where=is_open,
)
Index("ix_generation_old", generation.c.id, sqlite_where=is_superseded, postgresql_where=is_superseded)
Index("ix_generation_run", generation.c.run_id, generation.c.dag_id)
Index("ix_generation_operation", generation.c.operation, generation.c.version)
Index("ix_generation_commit", generation.c.commit_number)

source = Table(
    "source",
    metadata,
    Column("generation_id", ForeignKey("generation.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("source_id", ForeignKey("generation.id"), nullable=False, index=True),
)

operation = Table(
    "operation",
    metadata,
    Column("name", String, primary_key=True),
    Column("version", String, primary_key=True),
    Column("idempotent", Boolean, nullable=False),
    Column("checkpoint", Boolean, nullable=False),
    Column("runnable", Boolean, nullable=False),
    Column("nondeterministic", Boolean, nullable=False, default=False),
    Column("repeats", Integer, nullable=False, default=0),
    Column("reads", JSON, nullable=False),
    Column("output", String, nullable=False, default=""),  # its path template; empty if it has none
)

table_write = Table(
    "table_write",  # a generation that is, or is to be, in a table of Delta Lake or Iceberg
    metadata,
    Column("generation_id", ForeignKey("generation.id"), primary_key=True),
    Column("table", String, primary_key=True),  # its URI, as the setting has it
    Column("versions", String, nullable=False, default=""),  # of the tables that have it; empty: it is not in them yet
    Column("lease_owner", String, nullable=False, default=""),
    Column("lease_number", BigInteger, nullable=False, default=0),
    Column("lease_until", Float),
    Column("not_before", Float, nullable=False, default=0.0),
    Column("attempts", Integer, nullable=False, default=0),
    Column("error", String, nullable=False, default=""),
)

proof = Table(
    "proof",
    metadata,
    Column("operation", String, primary_key=True),
    Column("version", String, primary_key=True),
    Column("lease_owner", String, nullable=False, default=""),
    Column("lease_number", BigInteger, nullable=False, default=0),
    Column("lease_until", Float),
    Column("not_before", Float, nullable=False, default=0.0),
    Column("attempts", Integer, nullable=False, default=0),
    Column("scratch", String, nullable=False, default=""),  # location in the cache; empty if no worker has claimed it
    Column("error", String, nullable=False, default=""),
)

dag_run = Table(
    "dag_run",
    metadata,
    Column("dag_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("started_at", Float, nullable=False),
    Column("snapshot", BigInteger, nullable=False),  # the newest commit number visible to the run
    Column("ended_at", Float),
    Column("outcome", String, nullable=False, default=""),
)

reader = Table(
    "reader",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("generation_id", ForeignKey("generation.id"), nullable=False, index=True),
    Column("until", Float, nullable=False),
)

transition = Table(
    "transition",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("generation_id", ForeignKey("generation.id"), nullable=False, index=True),
    Column("changed_at", Float, nullable=False, index=True),
    Column("event", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("cache", String, nullable=False),
    Column("under", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("reason", String, nullable=False),
)

measurement = Table(
    "measurement",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("kind", String, nullable=False),  # an operation's name, or "" for the link
    Column("side", String, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("bytes_out", BigInteger, nullable=False, default=0),
    Column("seconds", Float, nullable=False),
    Column("measured_at", Float, nullable=False),
)
Index("ix_measurement_kind", measurement.c.kind, measurement.c.side, measurement.c.id)

risk_sample = Table(
    "risk_sample",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),  # since 1970
    Column("dag_id", String, primary_key=True),  # empty for what was made outside of DAGs; every sample has this row
    Column("bytes", BigInteger, nullable=False),
    Column("unproven_bytes", BigInteger, nullable=False),
    Column("irrecoverable_bytes", BigInteger, nullable=False),
    Column("recompute_seconds", Float, nullable=False),
)

commit_counter = Table(
    "commit_counter",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
