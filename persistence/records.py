"""How the rows of the catalog become the model's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, and_, select
from sqlalchemy.dialects import postgresql, sqlite

from persistence.errors import UnknownDataset
from persistence.model import Cache, Call, Dataset, Method, Origin, Phase, Ref, Strategy, Under
from persistence.schema import generation, source

_T = TypeVar("_T")
_upstream = generation.alias("upstream")
_SLICE = 500  # keys in one IN (…)


def load(connection: Connection, identities: Sequence[int]) -> dict[int, Dataset]:
    """The generations of these keys, with their sources."""
    sources: dict[int, list[Ref]] = {}
    rows: dict[int, Row[Any]] = {}
    for part in sliced(list(identities)):
        for row in connection.execute(select(generation).where(generation.c.id.in_(part))):
            rows[row.id] = row
        for row in connection.execute(
            select(source.c.generation_id, _upstream.c.path, _upstream.c.generation)
            .join(_upstream, _upstream.c.id == source.c.source_id)
            .where(source.c.generation_id.in_(part))
            .order_by(source.c.generation_id, source.c.position)
        ):
            sources.setdefault(row.generation_id, []).append(Ref(row.path, row.generation))
    return {identity: dataset_of(row, tuple(sources.get(identity, ()))) for identity, row in rows.items()}


def dataset_of(row: Row[Any], sources: tuple[Ref, ...]) -> Dataset:
    """The generation that a row of the table tells of."""
    return Dataset(
        ref=Ref(row.path, row.generation),
        phase=Phase(row.phase),
        cache=Cache(row.cache),
        under=Under(row.under),
        bytes=row.bytes,
        rows=row.rows,
        checksum=row.checksum,
        digest=row.digest,
        strategy=Strategy(row.strategy),
        wanted=row.wanted,
        checkpoint=row.checkpoint,
        pinned=row.pinned,
        head=row.head,
        reads=row.reads,
        call=Call(row.operation, row.version, row.params or {}) if row.operation else None,
        sources=sources,
        origin=Origin(row.dag_id, row.run_id, row.task_id),
        made_seconds=row.made_seconds,
        created_at=row.created_at,
        committed_at=row.committed_at,
        persisted_at=row.persisted_at,
        last_read_at=row.last_read_at,
        method=Method(row.method) if row.method else None,
        predicted_seconds=row.predicted_seconds,
        actual_seconds=row.actual_seconds,
        attempts=row.attempts,
        error=row.error,
        cache_location=row.cache_location,
        under_location=row.under_location,
        under_checksum=row.under_checksum,
        report=row.report,
        superseded=row.superseded,
    )


def insert_of(connection: Connection, table: Any) -> Any:
    """An INSERT that knows ON CONFLICT, in the database's own dialect."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def sliced(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Parts short enough for one IN (…)."""
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]


def key_of(connection: Connection, ref: Ref) -> int:
    """The key of a generation; raises `UnknownDataset`."""
    found = connection.scalar(
        select(generation.c.id).where(generation.c.path == ref.path, generation.c.generation == ref.generation)
    )
    if found is None:
        raise UnknownDataset(f"{ref} is not in the catalog; `python -m persistence status` lists what is")
    return int(found)


def keys_of(connection: Connection, refs: Sequence[Ref]) -> list[int]:
    """The keys of generations, in the order asked for; raises `UnknownDataset`."""
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
