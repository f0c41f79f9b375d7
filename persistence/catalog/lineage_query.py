"""Loads from the catalog only the part of the lineage that a decision needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.records import chunks_of, load_datasets
from springline.persistence.catalog.schema import generation, operation, source
from springline.persistence.model.dataset import Dataset, Operation, UnderStoreState
from springline.persistence.model.lineage import Lineage

_MAX_GENERATIONS = 20_000  # limit for one decision


def load_lineage(
    connection: Connection, seeds: Sequence[int], *, down: bool, ignore_under_store: bool = False
) -> Lineage:
    """Return the part of the lineage that decisions on `seeds` (keys of generations) need.

    Upstream it reaches to the nearest persisted generations. With `down` it also contains all unpersisted descendants
    and the direct dependents of these, which show the readers that are done. With `ignore_under_store`, copies in the
    under-store do not count, as if nothing were persisted.
    """
    loaded: dict[int, Dataset] = {}

    def load_missing(identities: Iterable[int]) -> None:
        fresh = [identity for identity in identities if identity not in loaded]
        for identity, dataset in load_datasets(connection, fresh).items():
            loaded[identity] = (
                replace(dataset, under=UnderStoreState.NONE) if ignore_under_store and dataset.persisted else dataset
            )

    frontier = list(seeds)
    while frontier and down and len(loaded) < _MAX_GENERATIONS:
        load_missing(frontier)
        frontier = [child for child in children_of(connection, frontier, schema.is_unpersisted) if child not in loaded]
    load_missing(frontier)
    frontier = list(loaded)
    visited = set(frontier)
    seed_keys = set(seeds)
    while frontier:
        climbing = [i for i in frontier if not loaded[i].persisted or i in seed_keys]
        parents: list[int] = []
        for part in chunks_of(climbing):
            parents += connection.scalars(select(source.c.source_id).where(source.c.generation_id.in_(part))).all()
        frontier = [parent for parent in dict.fromkeys(parents) if parent not in visited]
        visited.update(frontier)
        load_missing(frontier)
    if down:
        unpersisted = [identity for identity, dataset in loaded.items() if not dataset.persisted]
        load_missing(children_of(connection, unpersisted, generation.c.phase.in_(("open", "committed"))))
    names = {d.call.name for d in loaded.values() if d.call}
    return Lineage({d.ref: d for d in loaded.values()}, operations_of(connection, names), _readers(connection))


def children_of(connection: Connection, parents: Sequence[int], which: ColumnElement[bool]) -> list[int]:
    """Return the keys of the generations made directly from `parents`, without duplicates."""
    children: list[int] = []
    for part in chunks_of(parents):
        children += connection.scalars(
            select(source.c.generation_id)
            .join(generation, generation.c.id == source.c.generation_id)
            .where(source.c.source_id.in_(part), which)
        ).all()
    return list(dict.fromkeys(children))


def operations_of(connection: Connection, names: Iterable[str]) -> dict[tuple[str, str], Operation]:
    """Return the recorded operations with these names, in all their versions."""
    operations: dict[tuple[str, str], Operation] = {}
    for part in chunks_of(sorted(names)):
        for row in connection.execute(select(operation).where(operation.c.name.in_(part))):
            operations[row.name, row.version] = Operation(
                row.name, row.version, row.idempotent, row.checkpoint, row.runnable, row.nondeterministic, row.repeats,
                tuple(row.reads), row.output,
            )  # fmt: skip
    return operations


def _readers(connection: Connection) -> dict[str, list[str]]:
    """Map each operation to the operations that declare its output as a source."""
    readers: dict[str, list[str]] = {}
    for row in connection.execute(select(operation.c.name, operation.c.reads).where(operation.c.runnable)):
        for read in row.reads:
            readers.setdefault(read, []).append(row.name)
    return readers
