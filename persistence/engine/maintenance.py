"""Maintenance: detects lost data, retires superseded generations, sweeps left-over files, rebuilds the catalog."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, or_, select

from springline.persistence.backends.copy_layout import CopyLocation, parse_location, sweep_under
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import key_of, load_datasets
from springline.persistence.catalog.schema import dag_run, db_now, generation, reader, source
from springline.persistence.engine.catalog_rebuild import CatalogRebuildReport, rebuild
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.verification import under_store_unavailable_reason
from springline.persistence.errors import (
    CatalogUnavailableError,
    InvalidPathError,
    StorageUnavailableError,
    TransitionError,
    UnderStoreUnavailableError,
    UnknownDatasetError,
    describe_error,
)
from springline.persistence.model.dataset import (
    CacheState,
    Dataset,
    Phase,
    Ref,
    Strategy,
    UnderStoreState,
    validate_path,
)
from springline.persistence.model.manifest import require_free_names
from springline.persistence.model.transitions import Event

logger = logging.getLogger("springline.maintenance")

_RECLAIMED_WITHIN = 7 * 24 * 3600.0  # period (s) in which a worker whose lease expired may still have written


@dataclass
class ScanReport:
    """Result of a scan of the stores; `unreachable`: the generations that could not be checked, and why.

    `unavailable_reason`: why the under-store, which holds the persisted copies, does not respond; empty if it does.
    """

    checked_count: int = 0
    unavailable_reason: str = ""
    lost: list[Ref] = field(default_factory=list)
    unreachable: dict[Ref, str] = field(default_factory=dict)


@dataclass
class Maintenance:
    """Keeps the catalog and the stores consistent with each other."""

    catalog: Catalog
    cache: Backend
    under: UnderStore
    restorer: Restorer
    keep_generations: int
    reader_seconds: float

    def scan(self, *, deep: bool = False) -> ScanReport:
        """Verify every committed generation in the cache; with `deep` also checksums and the under-store.

        A generation that cannot be checked does not stop the scan. Raises `StorageUnavailableError` if a scanned store
        does not respond at all. The availability of the under-store is checked in any case.
        """
        query = select(generation.c.id).where(schema.is_committed)
        query = query if deep else query.where(schema.is_cached)
        report = ScanReport(
            unavailable_reason=under_store_unavailable_reason(self.under) if self.catalog.uses_under_store() else ""
        )
        for dataset in self.catalog.select(query):
            try:
                verified = self.restorer.verifier.verify(dataset, deep=deep)
            except CatalogUnavailableError:
                raise
            except Exception as error:  # whatever a store raises: it is that generation's, unless the store is away
                if self.cache.unavailable_reason() or (deep and self.under.unavailable_reason()):
                    raise
                report.unreachable[dataset.ref] = describe_error(error)
                continue
            report.checked_count += 1
            lost_below = dataset.persisted and not verified.persisted
            if verified.phase is Phase.COMMITTED and (
                lost_below or (dataset.in_cache and verified.cache is CacheState.LOST)
            ):
                report.lost.append(dataset.ref)
        return report

    def find_lost(self) -> list[Dataset]:
        """Return the lost generations that are neither persisted nor superseded."""
        is_lost = generation.c.cache == CacheState.LOST.value
        query = select(generation.c.id).where(schema.is_unpersisted, is_lost, ~generation.c.superseded)
        return self.catalog.select(query.order_by(generation.c.id))

    def retire(self) -> list[Ref]:
        """Remove superseded generations that have no readers and no unpersisted descendants.

        Raises `UnderStoreUnavailableError`, since the under-store may hold the only copy of the newer generations
        and of the descendants.
        """
        retired = []
        superseded = self.catalog.select(select(generation.c.id).where(schema.is_superseded).order_by(generation.c.id))
        if superseded and (unavailable_reason := under_store_unavailable_reason(self.under)):
            raise UnderStoreUnavailableError(f"nothing is retired: {unavailable_reason}")
        for old in superseded:
            if not self._would_retire(old) or self._depends_on_missing_copy(old):
                continue
            with self.catalog.write_transaction() as connection:
                identity = key_of(connection, old.ref)
                if not self._may_retire(connection, identity, old):
                    continue
                try:
                    self.catalog.apply(connection, identity, Event.RETIRED, reason="superseded and no longer read")
                except TransitionError:
                    continue
                dataset = load_datasets(connection, [identity])[identity]  # it may have been persisted in the meantime
            self.catalog.notify(Event.RETIRED, dataset)
            retired.append(dataset.ref)
            with self._continuing(dataset.ref):
                self.restorer.remove_copies(dataset)
        return retired

    def _would_retire(self, old: Dataset) -> bool:
        with self.catalog.write_transaction() as connection:
            return self._may_retire(connection, key_of(connection, old.ref), old)

    def _depends_on_missing_copy(self, old: Dataset) -> bool:
        """Whether a copy in the under-store that retiring `old` relies on is missing; missing copies are marked lost.

        The store is asked outside of the transaction that retires; `Replacement` explains why that is safe.
        """
        number = select(generation.c.commit_number).where(
            generation.c.path == old.ref.path, generation.c.generation == old.ref.generation
        )
        newer = select(generation.c.id).where(
            generation.c.path == old.ref.path,
            schema.is_committed,
            schema.is_persisted,
            ~schema.is_cached,
            generation.c.commit_number > number.scalar_subquery(),
        )
        persisted_children = [child for child in self.catalog.find_children(old.ref) if child.persisted]
        return any(
            self.restorer.verifier.check_under_copy(d) for d in (*self.catalog.select(newer), *persisted_children)
        )

    def _may_retire(self, connection: Connection, identity: int, dataset: Dataset) -> bool:
        row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
        newer = connection.execute(
            select(generation.c.commit_number, generation.c.cache, generation.c.under)
            .where(
                generation.c.path == dataset.ref.path,
                schema.is_committed,
                generation.c.commit_number > row.commit_number,
            )
            .order_by(generation.c.commit_number)
        ).all()
        readable = [n for n in newer if n.cache == CacheState.PRESENT.value or n.under == UnderStoreState.PRESENT.value]
        if len(readable) < self.keep_generations or row.pinned:
            return False
        if self._is_needed(connection, identity):
            return False
        running = dag_run.c.ended_at.is_(None) & (dag_run.c.started_at > db_now() - self.reader_seconds)
        is_its_run = (dag_run.c.dag_id == row.dag_id) & (dag_run.c.run_id == row.run_id)
        sees_it = (dag_run.c.snapshot >= row.commit_number) & (dag_run.c.snapshot < newer[0].commit_number)
        holding_runs = select(dag_run.c.run_id).where(running, or_(is_its_run, sees_it))
        return connection.execute(holding_runs.limit(1)).first() is None

    def _is_needed(self, connection: Connection, identity: int) -> bool:
        """Whether a generation has readers or unpersisted descendants."""
        child = generation.alias()
        unpersisted = (child.c.phase == Phase.OPEN.value) | (
            (child.c.phase == Phase.COMMITTED.value) & (child.c.under != UnderStoreState.PRESENT.value)
        )
        needed = (
            select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now()),
            select(child.c.id).join(source, source.c.generation_id == child.c.id)
            .where(source.c.source_id == identity, unpersisted),
        )  # fmt: skip
        return any(connection.execute(query.limit(1)).first() for query in needed)

    def discard(self, ref: Ref, reason: str) -> None:
        """Delete a committed generation for good with all its copies, even if it is the newest of its path.

        Raises `TransitionError` if it is pinned, is being copied or read, or has unpersisted descendants.
        """
        with self.catalog.write_transaction() as connection:
            identity = key_of(connection, ref)
            row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
            if row.pinned or self._is_needed(connection, identity):
                obstacle = (
                    "it is pinned" if row.pinned else "it is being read, or an unpersisted dataset was made from it"
                )
                raise TransitionError(f"{ref} is not retired: {obstacle}")
            self.catalog.apply(connection, identity, Event.RETIRED, reason=reason)
            dataset = load_datasets(connection, [identity])[identity]
        self.catalog.notify(Event.RETIRED, dataset)
        self.restorer.remove_copies(dataset)

    def sweep(self) -> list[Ref]:
        """Abandon generations that have been open longer than a writer may take, and remove files of dead processes."""
        stale = generation.c.created_at < db_now() - self.reader_seconds
        abandoned = []
        for dataset in self.catalog.select(select(generation.c.id).where(schema.is_open, stale)):
            with suppress(TransitionError):  # its writer has just finished
                self.catalog.change(dataset.ref, Event.ABANDONED, reason="its writer has stopped", bytes=0)
                abandoned.append(dataset.ref)
        is_removed = generation.c.phase.in_([Phase.RETIRED.value, Phase.ABANDONED.value])
        for dataset in self.catalog.select(
            select(generation.c.id).where(is_removed, generation.c.cache_location != "")
        ):
            with self._continuing(dataset.ref):
                self.restorer.remove_copies(dataset)
        for location in list(self.cache.copies()):
            if (place := parse_location(location)) is not None and self._is_left_over(place):
                with self._continuing(place.ref):
                    self.cache.delete(location)
        self._sweep_under_store()
        return abandoned

    def _sweep_under_store(self) -> None:
        """Remove uploads of dead workers, and copies of those that lost their lease and died before they noticed."""
        try:
            self.under.sweep_uploads(self.reader_seconds)
        except StorageUnavailableError as error:  # it may be a right that is lacking; copies are swept all the same
            logger.warning("uploads that were never completed could not be removed: %s", error)
        was_reclaimed = and_(schema.is_persisted, generation.c.lease_number > 1)
        was_persisted_lately = generation.c.persisted_at > db_now() - _RECLAIMED_WITHIN
        for dataset in self.catalog.select(select(generation.c.id).where(was_reclaimed, was_persisted_lately)):
            if (winner := parse_location(dataset.under_location)) is not None:
                with suppress(StorageUnavailableError), self._continuing(dataset.ref):  # the next run removes it
                    sweep_under(self.under, dataset, before=winner.lease)

    @contextmanager
    def _continuing(self, ref: Ref) -> Iterator[None]:
        """Log that the files of a generation could not be removed now; the next sweep tries again.

        Errors of the catalog and of a store that does not respond at all are raised.
        """
        try:
            yield
        except CatalogUnavailableError:
            raise
        except Exception as error:
            if self.cache.unavailable_reason() or self.under.unavailable_reason():
                raise
            logger.warning("%s: its files could not be removed: %s", ref, describe_error(error))

    def _is_left_over(self, place: CopyLocation) -> bool:
        """Whether a copy in the cache is not named by the catalog and is too old to be in progress."""
        try:
            dataset = self.catalog.get(place.ref)
        except UnknownDatasetError:
            return False  # it belongs to another catalog, perhaps one still to be rebuilt
        if dataset.cache_location == place.location and dataset.cache is not CacheState.EVICTED:
            return False
        return place.started_at < self.catalog.now() - self.reader_seconds

    def rebuild(self) -> CatalogRebuildReport:
        """Fill an empty catalog from the manifests in the under-store; raises `UsageError` if it is not empty."""
        return rebuild(self.catalog, self.under)

    def adopt(self, path: str, location: str) -> Dataset:
        """Record files that already are at `location` in the under-store as the next generation of `path`.

        The files stay in place, even when the generation is retired. No operation is recorded, so they cannot be
        recomputed. Raises `InvalidPathError`.
        """
        validate_path(path)
        try:
            manifest = self.under.manifest(location)
        except FileNotFoundError:
            raise InvalidPathError(f"{location}: the under-store has no such folder") from None
        if not manifest.files:
            raise InvalidPathError(f"{location}: the folder is empty")
        if any(part.startswith("@") for file in manifest.files for part in f"{location}/{file.name}".split("/")):
            raise InvalidPathError(
                f"{location} contains copies made by Springline; use `springline "
                f"catalog rebuild` for those of a lost catalog"
            )
        require_free_names((*self.under.names(location), *(file.name for file in manifest.files)), location)
        self.under.mark_root()
        dataset = self.catalog.begin(path, strategy=Strategy.CACHE_THROUGH)
        self.catalog.change(
            dataset.ref,
            Event.WRITTEN_TO_UNDER_STORE,
            reason=f"adopted from {location}",
            bytes=manifest.bytes,
            checksum=manifest.checksum,
            under_location=location,
            under_checksum=manifest.checksum,
            persisted_at=db_now(),
        )
        return self.catalog.commit(dataset.ref, reason="adopted")
