"""Fetches from the catalog just the part of the lineage that a decision looks at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.records import load, sliced
from springline.persistence.catalog.schema import generation, operation, source
from springline.persistence.model.dataset import Dataset, Operation, Under
from springline.persistence.model.lineage import Lineage

_MOST = 20_000  # generations that one decision looks at


def lineage_from(connection: Connection, seeds: Sequence[int], *, down: bool, away: bool = False) -> Lineage:
    """The part of the lineage that decisions on `seeds` (keys of generations) need.

    Upward as far as the first persisted generations. With `down` also downward over everything
    that is not persisted yet, and whatever has read any of it: what has read it need not read it again. Where the
    under-store is `away`, its copies count for nothing: all is as if nothing were persisted.
    """
    loaded: dict[int, Dataset] = {}

    def take(identities: Iterable[int]) -> None:
        fresh = [identity for identity in identities if identity not in loaded]
        for identity, dataset in load(connection, fresh).items():
            loaded[identity] = replace(dataset, under=Under.NONE) if away and dataset.persisted else dataset

    frontier = list(seeds)
    while frontier and down and len(loaded) < _MOST:
        take(frontier)
        frontier = [child for child in children_of(connection, frontier, schema.unsettled) if child not in loaded]
    take(frontier)
    frontier = list(loaded)
    seen = set(frontier)
    wanted_above = set(seeds)
    while frontier:
        climbing = [i for i in frontier if not loaded[i].persisted or i in wanted_above]
        parents: list[int] = []
        for part in sliced(climbing):
            parents += connection.scalars(select(source.c.source_id).where(source.c.generation_id.in_(part))).all()
        frontier = [parent for parent in dict.fromkeys(parents) if parent not in seen]
        seen.update(frontier)
        take(frontier)
    if down:
        unpersisted = [identity for identity, dataset in loaded.items() if not dataset.persisted]
        take(children_of(connection, unpersisted, generation.c.phase.in_(("open", "committed"))))
    names = {d.call.name for d in loaded.values() if d.call}
    return Lineage({d.ref: d for d in loaded.values()}, operations_of(connection, names), _readers(connection))


def children_of(connection: Connection, parents: Sequence[int], which: ColumnElement[bool]) -> list[int]:
    """The keys of what was made directly from `parents`, each once."""
    found: list[int] = []
    for part in sliced(parents):
        found += connection.scalars(
            select(source.c.generation_id)
            .join(generation, generation.c.id == source.c.generation_id)
            .where(source.c.source_id.in_(part), which)
        ).all()
    return list(dict.fromkeys(found))


def operations_of(connection: Connection, names: Iterable[str]) -> dict[tuple[str, str], Operation]:
    """The recorded operations of these names, at all their versions."""
    found: dict[tuple[str, str], Operation] = {}
    for part in sliced(sorted(names)):
        for row in connection.execute(select(operation).where(operation.c.name.in_(part))):
            found[row.name, row.version] = Operation(
                row.name, row.version, row.idempotent, row.checkpoint, row.runnable, row.unmasked, row.repeats,
                tuple(row.reads),
            )  # fmt: skip
    return found


def _readers(connection: Connection) -> dict[str, list[str]]:
    """By operation, the operations that declare its output as a source."""
    readers: dict[str, list[str]] = {}
    for row in connection.execute(select(operation.c.name, operation.c.reads).where(operation.c.runnable)):
        for read in row.reads:
            readers.setdefault(read, []).append(row.name)
    return readers
