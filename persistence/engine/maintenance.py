"""Upkeep: finds what was lost, retires superseded generations, sweeps what dead writers left, rebuilds the catalog."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, or_, select

from springline.persistence.backends.copy_layout import Place, place_of, sweep_under
from springline.persistence.backends.spec import Backend
from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import key_of, load
from springline.persistence.catalog.schema import dag_run, db_now, generation, reader, source
from springline.persistence.engine.catalog_rebuild import Rebuilt, rebuild
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.verification import why_away
from springline.persistence.errors import (
    InvalidPathError,
    StorageUnavailableError,
    TransitionError,
    UnderStoreUnavailableError,
    UnknownDatasetError,
)
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref, Strategy, Under, checked_path
from springline.persistence.model.transitions import Event

_WAKES_WITHIN = 7 * 24 * 3600.0  # seconds in which a worker that was thought dead is looked for


@dataclass
class Scan:
    """What a look at the stores found; `unreached`: what could not be looked at, and why.

    `away`: why the under-store, whose copies count, does not answer; empty if it does.
    """

    looked_at: int = 0
    away: str = ""
    lost: list[Ref] = field(default_factory=list)
    unreached: dict[Ref, str] = field(default_factory=dict)


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
        """Verify everything that is committed and in the cache; with `deep` also checksums and the under-store.

        What cannot be looked at keeps none of the others from it; raises `StorageUnavailableError` if a store that is
        looked into does not answer at all. The under-store is asked in any case whether it answers.
        """
        query = select(generation.c.id).where(schema.committed)
        query = query if deep else query.where(schema.in_cache)
        report = Scan(away=why_away(self.under) if self.catalog.uses_under_store() else "")
        for dataset in self.catalog.select(query):
            try:
                seen = self.restorer.verifier.verify(dataset, deep=deep)
            except StorageUnavailableError as error:
                if self.cache.why_away() or (deep and self.under.why_away()):
                    raise
                report.unreached[dataset.ref] = str(error)
                continue
            report.looked_at += 1
            lost_below = dataset.persisted and not seen.persisted
            if seen.phase is Phase.COMMITTED and (lost_below or (dataset.in_cache and seen.cache is Cache.LOST)):
                report.lost.append(dataset.ref)
        return report

    def lost(self) -> list[Dataset]:
        """What a fault took and is neither persisted nor superseded."""
        missing = generation.c.cache == Cache.LOST.value
        wanting = select(generation.c.id).where(schema.unsettled, missing, ~generation.c.superseded)
        return self.catalog.select(wanting.order_by(generation.c.id))

    def retire(self) -> list[Ref]:
        """Remove superseded generations that nobody reads and from which nothing unpersisted was made.

        Raises `UnderStoreUnavailableError`: what has superseded them, and what was made from them, may be in no other
        place.
        """
        retired = []
        superseded = self.catalog.select(select(generation.c.id).where(schema.old).order_by(generation.c.id))
        if superseded and (away := why_away(self.under)):
            raise UnderStoreUnavailableError(f"nothing is retired: {away}")
        for old in superseded:
            if not self._would_retire(old) or self._rests_on_what_is_missing(old):
                continue
            with self.catalog.writing() as connection:
                identity = key_of(connection, old.ref)
                if not self._may_retire(connection, identity, old):
                    continue
                try:
                    self.catalog.apply(connection, identity, Event.RETIRED, why="superseded and no longer read")
                except TransitionError:
                    continue
                dataset = load(connection, [identity])[identity]  # it may have been persisted meanwhile
            self.catalog.announce(Event.RETIRED, dataset)
            self.restorer.forget(dataset)
            retired.append(dataset.ref)
        return retired

    def _would_retire(self, old: Dataset) -> bool:
        with self.catalog.writing() as connection:
            return self._may_retire(connection, key_of(connection, old.ref), old)

    def _rests_on_what_is_missing(self, old: Dataset) -> bool:
        """Whether a copy in the under-store, by the word of which `old` may go, is not there; what is gone is marked.

        Asked for outside of the transaction that retires; see `Replacement` for what holds between the two.
        """
        number = select(generation.c.commit_number).where(
            generation.c.path == old.ref.path, generation.c.generation == old.ref.generation
        )
        newer = select(generation.c.id).where(
            generation.c.path == old.ref.path,
            schema.committed,
            schema.persisted,
            ~schema.in_cache,
            generation.c.commit_number > number.scalar_subquery(),
        )
        below = [child for child in self.catalog.made_from(old.ref) if child.persisted]
        return any(self.restorer.verifier.why_not_below(d) for d in (*self.catalog.select(newer), *below))

    def _may_retire(self, connection: Connection, identity: int, dataset: Dataset) -> bool:
        row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
        newer = connection.execute(
            select(generation.c.commit_number, generation.c.cache, generation.c.under)
            .where(
                generation.c.path == dataset.ref.path, schema.committed, generation.c.commit_number > row.commit_number
            )
            .order_by(generation.c.commit_number)
        ).all()
        readable = [n for n in newer if n.cache == Cache.PRESENT.value or n.under == Under.PRESENT.value]
        if len(readable) < self.keep_generations or row.pinned:
            return False
        if self._is_needed(connection, identity):
            return False
        running = dag_run.c.ended_at.is_(None) & (dag_run.c.began_at > db_now() - self.reader_seconds)
        made_by = (dag_run.c.dag_id == row.dag_id) & (dag_run.c.run_id == row.run_id)
        sees_it = (dag_run.c.snapshot >= row.commit_number) & (dag_run.c.snapshot < newer[0].commit_number)
        held = select(dag_run.c.run_id).where(running, or_(made_by, sees_it))
        return connection.execute(held.limit(1)).first() is None

    def _is_needed(self, connection: Connection, identity: int) -> bool:
        """Whether somebody reads a generation, or something unpersisted was made from it."""
        child = generation.alias()
        unpersisted = (child.c.phase == Phase.OPEN.value) | (
            (child.c.phase == Phase.COMMITTED.value) & (child.c.under != Under.PRESENT.value)
        )
        needed = (
            select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now()),
            select(child.c.id).join(source, source.c.generation_id == child.c.id)
            .where(source.c.source_id == identity, unpersisted),
        )  # fmt: skip
        return any(connection.execute(query.limit(1)).first() for query in needed)

    def discard(self, ref: Ref, why: str) -> None:
        """Let a committed generation go for good, with all copies, though it may be the newest of its path.

        Raises `TransitionError` where it is pinned, being copied or read, or something unpersisted was made from it.
        """
        with self.catalog.writing() as connection:
            identity = key_of(connection, ref)
            row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
            if row.pinned or self._is_needed(connection, identity):
                reason = "it is pinned" if row.pinned else "it is being read, or something unpersisted was made from it"
                raise TransitionError(f"{ref} stays: {reason}")
            self.catalog.apply(connection, identity, Event.RETIRED, why=why)
            dataset = load(connection, [identity])[identity]
        self.catalog.announce(Event.RETIRED, dataset)
        self.restorer.forget(dataset)

    def sweep(self) -> list[Ref]:
        """Abandon what has been open for longer than any writer may take, and remove what dead processes left."""
        stale = generation.c.created_at < db_now() - self.reader_seconds
        abandoned = []
        for dataset in self.catalog.select(select(generation.c.id).where(schema.being_written, stale)):
            with suppress(TransitionError):  # its writer came back just now
                self.catalog.change(dataset.ref, Event.ABANDONED, why="its writer did not come back", bytes=0)
                abandoned.append(dataset.ref)
        over = generation.c.phase.in_([Phase.RETIRED.value, Phase.ABANDONED.value])
        for dataset in self.catalog.select(select(generation.c.id).where(over, generation.c.cache_location != "")):
            self.restorer.forget(dataset)
        for location in list(self.cache.copies()):
            if (place := place_of(location)) is not None and self._is_left_over(place):
                self.cache.delete(location)
        self._sweep_under_store()
        return abandoned

    def _sweep_under_store(self) -> None:
        """Remove what a worker left that lost its lease, wrote on, and died before it noticed."""
        taken_over = and_(schema.persisted, generation.c.lease_number > 1)
        lately = generation.c.persisted_at > db_now() - _WAKES_WITHIN
        for dataset in self.catalog.select(select(generation.c.id).where(taken_over, lately)):
            if (winner := place_of(dataset.under_location)) is not None:
                with suppress(StorageUnavailableError):  # the next upkeep comes by
                    sweep_under(self.under, dataset, before=winner.lease)

    def _is_left_over(self, place: Place) -> bool:
        """Whether a copy in the cache is none that the catalog names, and none that is just being made."""
        try:
            dataset = self.catalog.get(place.ref)
        except UnknownDatasetError:
            return False  # another catalog's, perhaps one that is still to be rebuilt
        if dataset.cache_location == place.location and dataset.cache is not Cache.EVICTED:
            return False
        return place.begun_at < self.catalog.now() - self.reader_seconds

    def rebuild(self) -> Rebuilt:
        """Fill an empty catalog from the sidecars in the under-store; raises `PersistenceError` if it is not empty."""
        return rebuild(self.catalog, self.under)

    def adopt(self, path: str, location: str) -> Dataset:
        """Record files that lie at `location` in the under-store already as the next generation of `path`.

        They stay where they are, also when the generation is retired. No operation is recorded, so they
        can't be recomputed. Raises `InvalidPathError`.
        """
        checked_path(path)
        try:
            manifest = self.under.manifest(location)
        except FileNotFoundError:
            raise InvalidPathError(f"{location}: there is no such folder in the under-store") from None
        if not manifest.files:
            raise InvalidPathError(f"{location}: there are no files in the under-store")
        if any(part.startswith("@") for file in manifest.files for part in f"{location}/{file.name}".split("/")):
            raise InvalidPathError(
                f"{location} holds copies that were made here; `rebuild` finds those of a lost catalog"
            )
        self.under.mark_root()
        dataset = self.catalog.begin(path, strategy=Strategy.CACHE_THROUGH)
        self.catalog.change(
            dataset.ref,
            Event.WRITTEN_DOWN,
            why=f"adopted from {location}",
            bytes=manifest.bytes,
            checksum=manifest.checksum,
            under_location=location,
            under_checksum=manifest.checksum,
            persisted_at=db_now(),
        )
        return self.catalog.commit(dataset.ref, why="adopted")
