"""Upkeep: finds what was lost, retires superseded generations, sweeps what dead writers left, rebuilds the catalog."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import insert, or_, select

from persistence import schema, sidecar
from persistence.backends.spec import Backend
from persistence.catalog import Catalog
from persistence.errors import InvalidPath, PersistenceError, RefusedTransition
from persistence.model import Cache, Dataset, Phase, Ref, Strategy, Under, checked_path
from persistence.restoring import Restorer
from persistence.schema import commit_counter, dag_run, db_now, generation, reader, source
from persistence.transitions import Event


@dataclass
class Scan:
    """What a look at the stores found."""

    looked_at: int = 0
    lost: list[Ref] = field(default_factory=list)


@dataclass
class Rebuilt:
    """What was read back from the sidecars."""

    found: list[Ref] = field(default_factory=list)
    without_source: dict[Ref, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


@dataclass
class Maintenance:
    """Keeps catalog and stores true to each other."""

    catalog: Catalog
    cache: Backend
    under: Backend
    restorer: Restorer
    keep_generations: int
    reader_seconds: float

    def scan(self, *, deep: bool = False) -> Scan:
        """Verify everything that is committed and in the cache; with `deep` also checksums and the under-store."""
        query = select(generation.c.id).where(schema.committed)
        query = query if deep else query.where(schema.in_cache)
        report = Scan()
        for dataset in self.catalog.select(query):
            report.looked_at += 1
            seen = self.restorer.verify(dataset, deep=deep)
            if (seen.cache, seen.under) != (dataset.cache, dataset.under):
                report.lost.append(dataset.ref)
        return report

    def lost(self) -> list[Dataset]:
        """What a fault took and is neither persisted nor superseded."""
        missing = generation.c.cache == Cache.LOST.value
        return self.catalog.select(select(generation.c.id).where(schema.unsettled, missing, ~generation.c.superseded))

    def retire(self) -> list[Ref]:
        """Remove superseded generations that nobody reads and from which nothing unpersisted was made."""
        retired = []
        for dataset in self.catalog.select(select(generation.c.id).where(schema.old).order_by(generation.c.id)):
            with self.catalog.writing() as connection:
                identity = self.catalog.identity(connection, dataset.ref)
                if not self._may_retire(connection, identity, dataset):
                    continue
                try:
                    self.catalog.apply(connection, identity, Event.RETIRED, why="superseded and no longer read")
                except RefusedTransition:
                    continue
            self._remove(dataset)
            retired.append(dataset.ref)
        return retired

    def _may_retire(self, connection, identity: int, dataset: Dataset) -> bool:  # type: ignore[no-untyped-def]
        row = connection.execute(select(generation).where(generation.c.id == identity)).one()
        newer = connection.scalars(
            select(generation.c.commit_number)
            .where(
                generation.c.path == dataset.ref.path, schema.committed, generation.c.commit_number > row.commit_number
            )
            .order_by(generation.c.commit_number)
        ).all()
        if len(newer) < self.keep_generations or row.pinned:
            return False
        running = dag_run.c.ended_at.is_(None) & (dag_run.c.began_at > db_now() - self.reader_seconds)
        made_by = (dag_run.c.dag_id == row.dag_id) & (dag_run.c.run_id == row.run_id)
        sees_it = (dag_run.c.snapshot >= row.commit_number) & (dag_run.c.snapshot < newer[0])
        child = generation.alias()
        unpersisted = (child.c.phase == Phase.OPEN.value) | (
            (child.c.phase == Phase.COMMITTED.value) & (child.c.under != Under.PRESENT.value)
        )
        held = (
            select(dag_run.c.run_id).where(running, or_(made_by, sees_it)),
            select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now()),
            select(child.c.id).join(source, source.c.generation_id == child.c.id)
            .where(source.c.source_id == identity, unpersisted),
        )  # fmt: skip
        return not any(connection.execute(query.limit(1)).first() for query in held)

    def sweep(self) -> list[Ref]:
        """Abandon what has been open for longer than any writer may take, and remove what it left."""
        stale = generation.c.created_at < db_now() - self.reader_seconds
        abandoned = []
        for dataset in self.catalog.select(select(generation.c.id).where(schema.being_written, stale)):
            self.catalog.change(dataset.ref, Event.ABANDONED, why="its writer did not come back", bytes=0)
            self._remove(dataset)
            abandoned.append(dataset.ref)
        return abandoned

    def rebuild(self) -> Rebuilt:
        """Fill an empty catalog from the sidecars in the under-store; raises `PersistenceError` if it is not empty."""
        if self.catalog.find(limit=1):
            raise PersistenceError("the catalog is not empty; rebuild fills an empty one only")
        report = Rebuilt()
        copies: dict[Ref, tuple[str, Dataset]] = {}
        for location in self.under.locations(sidecar.NAME):
            try:
                told = sidecar.read(self.under.read_small(location, sidecar.NAME), where=location)
            except PersistenceError as error:
                report.unreadable.append(str(error))
                continue
            copies[told.ref] = max((location, told), copies.get(told.ref, ("", told)), key=lambda pair: _lease(pair[0]))
        in_order = sorted(copies.values(), key=lambda pair: (pair[1].created_at, pair[1].ref))
        with self.catalog.writing() as connection:
            known: dict[Ref, int] = {}
            newest = {told.ref.path: told.ref for _, told in in_order}
            for number, (location, told) in enumerate(in_order, start=1):
                known[told.ref] = self._record(connection, told, location, number, newest[told.ref.path] != told.ref)
                report.found.append(told.ref)
            for _, told in in_order:
                for position, ref in enumerate(told.sources):
                    if ref in known:
                        values = {"generation_id": known[told.ref], "position": position, "source_id": known[ref]}
                        connection.execute(insert(source).values(**values))
                    else:
                        report.without_source.setdefault(told.ref, []).append(str(ref))
            if in_order:
                connection.execute(insert(commit_counter).values(id=1, number=len(in_order)))
        return report

    def adopt(self, path: str, location: str) -> Dataset:
        """Record files that lie at `location` in the under-store already as the next generation of `path`.

        They stay where they are. No operation is recorded, so they can't be recomputed. Raises
        `FileNotFoundError`, `InvalidPath`.
        """
        checked_path(path)
        manifest = self.under.manifest(location)
        if not manifest.files:
            raise InvalidPath(f"{location}: there are no files in the under-store")
        dataset = self.catalog.begin(path, strategy=Strategy.CACHE_THROUGH)
        self.catalog.change(
            dataset.ref,
            Event.WRITTEN_DOWN,
            why=f"adopted from {location}",
            bytes=manifest.bytes,
            under_location=location,
            under_checksum=manifest.checksum,
            persisted_at=db_now(),
        )
        return self.catalog.commit(dataset.ref, why="adopted")

    def _record(self, connection, told: Dataset, location: str, number: int, superseded: bool) -> int:  # type: ignore[no-untyped-def]
        call = told.call
        values = {
            "path": told.ref.path, "generation": told.ref.generation, "phase": "committed", "cache": "evicted",
            "under": "present", "bytes": told.bytes, "rows": told.rows, "digest": told.digest,
            "strategy": told.strategy.value, "wanted": True, "checkpoint": told.checkpoint,
            "operation": call.name if call else None, "version": call.version if call else None,
            "params": dict(call.params) if call else None, "dag_id": told.origin.dag_id,
            "run_id": told.origin.run_id, "task_id": told.origin.task_id, "made_seconds": told.made_seconds,
            "report": dict(told.report) if told.report else None, "created_at": told.created_at,
            "committed_at": told.created_at, "commit_number": number, "persisted_at": told.created_at,
            "cache_location": f"{told.ref.path}/@{told.ref.generation}", "under_location": location,
            "under_checksum": told.under_checksum, "lease_number": _lease(location), "superseded": superseded,
        }  # fmt: skip
        return int(connection.execute(insert(generation).values(**values)).inserted_primary_key[0])

    def _remove(self, dataset: Dataset) -> None:
        self.cache.delete(dataset.cache_location)
        if dataset.under_location:
            self.under.delete(dataset.under_location)


def _lease(location: str) -> int:
    """The number of the lease in the name of a copy; -1 if there is none."""
    number = location.rpartition("-")[2]
    return int(number) if number.isdigit() else -1
