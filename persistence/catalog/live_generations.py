"""Few columns of all live generations, and of those that changed since: for an index that a process keeps in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from springline.persistence.catalog.database import Database
from springline.persistence.catalog.records import chunks_of
from springline.persistence.catalog.schema import generation, operation, source, transition

_LATE_SECONDS = 60.0  # a change may be committed after younger ones: that much later at most
_COLUMNS = generation.c
_SELECTED = (
    _COLUMNS.id, _COLUMNS.path, _COLUMNS.generation, _COLUMNS.phase, _COLUMNS.cache, _COLUMNS.under, _COLUMNS.bytes,
    _COLUMNS.superseded, _COLUMNS.pinned, _COLUMNS.checkpoint, _COLUMNS.operation, _COLUMNS.version, _COLUMNS.dag_id,
    _COLUMNS.run_id, _COLUMNS.task_id, _COLUMNS.created_at, _COLUMNS.committed_at, _COLUMNS.compute_seconds,
)  # fmt: skip
_is_live = generation.c.phase.in_(("open", "committed"))


class LiveRow(NamedTuple):
    """The columns of a generation that an overview shows; times in seconds since 1970."""

    id: int
    path: str
    generation: int
    phase: str
    cache: str
    under: str
    bytes: int
    superseded: bool
    pinned: bool
    checkpoint: bool
    operation: str | None
    version: str | None
    dag_id: str
    run_id: str
    task_id: str
    created_at: float
    committed_at: float | None
    compute_seconds: float | None


class OperationRow(NamedTuple):
    """What an overview needs of an operation: whether a re-run restores its output, and its path template."""

    repeatable: bool
    proven: bool
    output: str


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """Up to where changes were read: the time of the newest one, and the transitions of the minute before it."""

    changed_at: float = 0.0
    transition_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveChanges:
    """Generations that are new or changed, in any phase; all are live if nothing was read before.

    `sources`: the keys of the generations that each was made from. `operations`: all, by name and version.
    """

    rows: Sequence[LiveRow]
    sources: Mapping[int, Sequence[int]]
    operations: Mapping[tuple[str, str], OperationRow]
    mark: ChangeMark = field(default_factory=ChangeMark)


class LiveGenerations(Database):
    """The part of the catalog that reports which generations are live."""

    def live_generations(self) -> LiveChanges:
        """Return all live generations."""
        with self.read_transaction() as connection:
            mark = _mark_of(connection, ChangeMark())
            rows = [LiveRow._make(row) for row in connection.execute(select(*_SELECTED).where(_is_live)).all()]
            sources = _sources(connection, None)
            return LiveChanges(rows, sources, _operations(connection), mark)

    def changed_generations(self, mark: ChangeMark) -> LiveChanges:
        """Return the generations that changed after `mark`, with all others of the same paths."""
        with self.read_transaction() as connection:
            changed = _changes_since(connection, mark)
            fresh = {identity: key for identity, (key, _) in changed.items() if identity not in mark.transition_ids}
            rows = [
                LiveRow._make(row)
                for keys in chunks_of(sorted(set(fresh.values())))
                for row in connection.execute(_rows_beside(keys))
            ]
            unique = list({row.id: row for row in rows}.values())
            sources = _sources(connection, [row.id for row in unique])
            return LiveChanges(unique, sources, _operations(connection), _mark_of(connection, mark, changed))


def _rows_beside(keys: Collection[int]) -> Select[Any]:
    """Select the generations with these keys and the others of their paths: a commit supersedes them silently."""
    paths = select(generation.c.path).where(generation.c.id.in_(keys))
    return select(*_SELECTED).where(generation.c.path.in_(paths))


def _changes_since(connection: Connection, mark: ChangeMark) -> dict[int, tuple[int, float]]:
    """Return the generation and the time of each transition since shortly before the mark, by the transition's id."""
    query = select(transition.c.id, transition.c.generation_id, transition.c.changed_at)
    rows = connection.execute(query.where(transition.c.changed_at >= mark.changed_at - _LATE_SECONDS))
    return {identity: (key, changed_at) for identity, key, changed_at in rows}


def _mark_of(
    connection: Connection, mark: ChangeMark, changed: Mapping[int, tuple[int, float]] | None = None
) -> ChangeMark:
    """Return the mark after these changes; if none are given, after all that there are."""
    if changed is None:
        newest = connection.scalar(select(func.max(transition.c.changed_at)))
        mark = ChangeMark(newest or 0.0)
        changed = _changes_since(connection, mark)
    newest_time = max((changed_at for _, changed_at in changed.values()), default=mark.changed_at)
    oldest_time = newest_time - _LATE_SECONDS
    return ChangeMark(newest_time, frozenset(i for i, (_, changed_at) in changed.items() if changed_at >= oldest_time))


def _sources(connection: Connection, keys: Sequence[int] | None) -> dict[int, list[int]]:
    """Return the sources of the generations with these keys, or of all live ones."""
    query = select(source.c.generation_id, source.c.source_id).order_by(source.c.generation_id, source.c.position)
    sources: dict[int, list[int]] = {}
    if keys is None:
        live = query.join(generation, generation.c.id == source.c.generation_id).where(_is_live)
        for key, origin in connection.execute(live).all():
            sources.setdefault(key, []).append(origin)
        return sources
    for part in chunks_of(list(keys)):
        for key, origin in connection.execute(query.where(source.c.generation_id.in_(part))):
            sources.setdefault(key, []).append(origin)
    return sources


def _operations(connection: Connection) -> dict[tuple[str, str], OperationRow]:
    table = operation.c
    query = select(
        table.name, table.version, table.idempotent, table.runnable, table.nondeterministic, table.repeats, table.output
    )
    return {
        (name, version): OperationRow(idempotent and runnable and not nondeterministic, repeats > 0, output)
        for name, version, idempotent, runnable, nondeterministic, repeats, output in connection.execute(query)
    }
