"""How the rows of the catalog become the model's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects import postgresql, sqlite

from springline.persistence.catalog.schema import generation, source
from springline.persistence.errors import UnknownDatasetError
from springline.persistence.model.dataset import Cache, Call, Dataset, Method, Origin, Phase, Ref, Strategy, Under

_T = TypeVar("_T")
_upstream = generation.alias("upstream")
_SLICE = 500  # keys in one IN (…)
_PHASES = {each.value: each for each in Phase}
_CACHES = {each.value: each for each in Cache}
_UNDERS = {each.value: each for each in Under}
_STRATEGIES = {each.value: each for each in Strategy}
_METHODS = {each.value: each for each in Method}

# Thousands are loaded for one picture: a row is taken apart at once, not column by column.
_table = generation.c
_COLUMNS = (
    _table.id, _table.path, _table.generation, _table.phase, _table.cache, _table.under, _table.bytes, _table.rows,
    _table.checksum, _table.digest, _table.strategy, _table.wanted, _table.checkpoint, _table.pinned, _table.head,
    _table.reads, _table.operation, _table.version, _table.params, _table.dag_id, _table.run_id, _table.task_id,
    _table.made_seconds, _table.created_at, _table.committed_at, _table.persisted_at, _table.last_read_at,
    _table.method, _table.predicted_seconds, _table.actual_seconds, _table.attempts, _table.error,
    _table.cache_location, _table.under_location, _table.under_checksum, _table.report, _table.superseded,
)  # fmt: skip


def load(connection: Connection, identities: Sequence[int]) -> dict[int, Dataset]:
    """The generations of these keys, with their sources."""
    sources: dict[int, list[Ref]] = {}
    rows: dict[int, Sequence[Any]] = {}
    for part in sliced(list(identities)):
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
    """The generation that a row of `_COLUMNS` tells of."""
    (
        _, path, number, phase, cache, under, size, rows, checksum, digest, strategy, wanted, checkpoint, pinned, head,
        reads, operation, version, params, dag_id, run_id, task_id, made_seconds, created_at, committed_at,
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
        wanted=wanted,
        checkpoint=checkpoint,
        pinned=pinned,
        head=head,
        reads=reads,
        call=Call(operation, version, params or {}) if operation else None,
        sources=sources,
        origin=Origin(dag_id, run_id, task_id),
        made_seconds=made_seconds,
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
    """An INSERT that knows ON CONFLICT, in the database's own dialect."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def sliced(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Parts short enough for one IN (…)."""
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]


def key_of(connection: Connection, ref: Ref) -> int:
    """The key of a generation; raises `UnknownDatasetError`."""
    found = connection.scalar(
        select(generation.c.id).where(generation.c.path == ref.path, generation.c.generation == ref.generation)
    )
    if found is None:
        raise UnknownDatasetError(f"{ref} is not in the catalog; `springline dataset list` lists what is")
    return int(found)


def keys_of(connection: Connection, refs: Sequence[Ref]) -> list[int]:
    """The keys of generations, in the order asked for; raises `UnknownDatasetError`."""
    found: dict[Ref, int] = {}
    for part in sliced(list(dict.fromkeys(refs))):
        # A comparison of pairs would be one condition, but SQLite answers it without the index.
        near = and_(
            generation.c.path.in_({ref.path for ref in part}),
            generation.c.generation.in_({ref.generation for ref in part}),
        )
        for row in connection.execute(select(generation.c.id, generation.c.path, generation.c.generation).where(near)):
            found[Ref(row.path, row.generation)] = row.id
    return [found[ref] if ref in found else key_of(connection, ref) for ref in refs]
