"""Converts rows of the catalog to values of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects import postgresql, sqlite

from springline.persistence.catalog.schema import generation, source
from springline.persistence.errors import UnknownDatasetError
from springline.persistence.model.dataset import (
    CacheState,
    Call,
    Dataset,
    Origin,
    Phase,
    Ref,
    Strategy,
    TransferMethod,
    UnderStoreState,
)

_T = TypeVar("_T")
_upstream = generation.alias("upstream")
_MAX_KEYS = 500  # keys in one IN (…)
_PHASES = {each.value: each for each in Phase}
_CACHES = {each.value: each for each in CacheState}
_UNDERS = {each.value: each for each in UnderStoreState}
_STRATEGIES = {each.value: each for each in Strategy}
_METHODS = {each.value: each for each in TransferMethod}

# Thousands are loaded for one page: a row is unpacked at once, not column by column.
_table = generation.c
_COLUMNS = (
    _table.id, _table.path, _table.generation, _table.phase, _table.cache, _table.under, _table.bytes, _table.rows,
    _table.checksum, _table.digest, _table.strategy, _table.persist_requested, _table.checkpoint, _table.pinned,
    _table.expedited,
    _table.reads, _table.operation, _table.version, _table.params, _table.dag_id, _table.run_id, _table.task_id,
    _table.compute_seconds, _table.created_at, _table.committed_at, _table.persisted_at, _table.last_read_at,
    _table.method, _table.predicted_seconds, _table.actual_seconds, _table.attempts, _table.error,
    _table.cache_location, _table.under_location, _table.under_checksum, _table.report, _table.superseded,
)  # fmt: skip


def load_datasets(connection: Connection, identities: Sequence[int]) -> dict[int, Dataset]:
    """Load the generations with these keys, with their sources."""
    sources: dict[int, list[Ref]] = {}
    rows: dict[int, Sequence[Any]] = {}
    for part in chunks_of(list(identities)):
        for row in connection.execute(select(*_COLUMNS).where(generation.c.id.in_(part))):
            rows[row[0]] = row
        for identity, path, number in connection.execute(
            select(source.c.generation_id, _upstream.c.path, _upstream.c.generation)
            .join(_upstream, _upstream.c.id == source.c.source_id)
            .where(source.c.generation_id.in_(part))
            .order_by(source.c.generation_id, source.c.position)
        ):
            sources.setdefault(identity, []).append(Ref(path, number))
    return {identity: _dataset_of(row, tuple(sources.get(identity, ()))) for identity, row in rows.items()}


def _dataset_of(row: Sequence[Any], sources: tuple[Ref, ...]) -> Dataset:
    """Convert a row of `_COLUMNS` to a dataset."""
    (
        _, path, number, phase, cache, under, size, rows, checksum, digest, strategy, persist_requested, checkpoint,
        pinned, expedited,
        reads, operation, version, params, dag_id, run_id, task_id, compute_seconds, created_at, committed_at,
        persisted_at, last_read_at, method, predicted_seconds, actual_seconds, attempts, error, cache_location,
        under_location, under_checksum, report, superseded,
    ) = row  # fmt: skip
    return Dataset(
        ref=Ref(path, number),
        phase=_PHASES[phase],
        cache=_CACHES[cache],
        under=_UNDERS[under],
        bytes=size,
        rows=rows,
        checksum=checksum,
        digest=digest,
        strategy=_STRATEGIES[strategy],
        persist_requested=persist_requested,
        checkpoint=checkpoint,
        pinned=pinned,
        expedited=expedited,
        reads=reads,
        call=Call(operation, version, params or {}) if operation else None,
        sources=sources,
        origin=Origin(dag_id, run_id, task_id),
        compute_seconds=compute_seconds,
        created_at=created_at,
        committed_at=committed_at,
        persisted_at=persisted_at,
        last_read_at=last_read_at,
        method=_METHODS[method] if method else None,
        predicted_seconds=predicted_seconds,
        actual_seconds=actual_seconds,
        attempts=attempts,
        error=error,
        cache_location=cache_location,
        under_location=under_location,
        under_checksum=under_checksum,
        report=report,
        superseded=superseded,
    )


def insert_of(connection: Connection, table: Any) -> Any:
    """Return an INSERT that supports ON CONFLICT, in the dialect of the database."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def chunks_of(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield parts that are short enough for one IN (…)."""
    for start in range(0, len(items), _MAX_KEYS):
        yield items[start : start + _MAX_KEYS]


def key_of(connection: Connection, ref: Ref) -> int:
    """Return the key of a generation; raises `UnknownDatasetError`."""
    key = connection.scalar(
        select(generation.c.id).where(generation.c.path == ref.path, generation.c.generation == ref.generation)
    )
    if key is None:
        raise UnknownDatasetError(f"{ref} is not in the catalog; `springline dataset list` shows all datasets")
    return int(key)


def keys_of(connection: Connection, refs: Sequence[Ref]) -> list[int]:
    """Return the keys of generations in the order of `refs`; raises `UnknownDatasetError`."""
    keys: dict[Ref, int] = {}
    for part in chunks_of(list(dict.fromkeys(refs))):
        # A comparison of pairs would be one condition, but SQLite evaluates it without the index.
        candidates = and_(
            generation.c.path.in_({ref.path for ref in part}),
            generation.c.generation.in_({ref.generation for ref in part}),
        )
        for row in connection.execute(
            select(generation.c.id, generation.c.path, generation.c.generation).where(candidates)
        ):
            keys[Ref(row.path, row.generation)] = row.id
    return [keys[ref] if ref in keys else key_of(connection, ref) for ref in refs]
