"""Frees space in the cache: executes eviction plans, each eviction in one transaction that checks again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Row, select

from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import key_of, load_datasets
from springline.persistence.catalog.schema import db_now, generation, operation, reader, source
from springline.persistence.decisions.eviction import EvictionPlan, Victim, plan_eviction
from springline.persistence.engine.verification import Verifier, under_store_unavailable_reason
from springline.persistence.errors import (
    CatalogUnavailableError,
    CorruptCopyError,
    PersistenceError,
    TransitionError,
    UnderStoreUnavailableError,
)
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref, Strategy, UnderStoreState
from springline.persistence.model.transitions import Event

logger = logging.getLogger("springline.replacement")


class Replacement:
    """Keeps the cache within `limit` bytes, and within its disk; `order` is lru or lrfu.

    The catalog's record that a copy is in the under-store is not enough to evict the cached bytes: the store is asked
    first, outside of any transaction, since it may be slow. Between its answer and the eviction two things hold: the
    platform removes no copy that the catalog names for a committed generation except by a change of state, and the
    transaction accepts only the copies that were asked for and that the catalog still names. A person who deletes files
    in the store at that moment cannot be guarded against by any order of checks.
    """

    def __init__(
        self, catalog: Catalog, cache: Backend, under: UnderStore, verifier: Verifier, *, limit: int, order: str
    ) -> None:
        self.catalog = catalog
        self.cache = cache
        self.under = under
        self.verifier = verifier
        self.limit = limit
        self._order = order

    @property
    def capacity(self) -> int:
        """The bytes that the cache can hold: no more than the limit, nor than its disk has besides other files."""
        free_bytes = self.cache.free_bytes()
        if free_bytes is None or free_bytes >= self.limit:
            return self.limit
        return min(self.limit, self.catalog.cache_usage()[0] + free_bytes)

    def plan(self, needed_bytes: int) -> EvictionPlan:
        """Return the evictions that would free `needed_bytes` bytes; asks once whether the under-store responds."""
        lineage = self.catalog.lineage_of_cache()
        busy = {
            ref for ref, d in lineage.datasets.items() if d.under is UnderStoreState.COPYING or d.phase is Phase.OPEN
        }
        protected = self.catalog.refs_being_read() | busy
        return plan_eviction(
            lineage,
            needed_bytes,
            protected=frozenset(protected),
            replacement=self._order,
            now=self.catalog.now(),
            unavailable_reason=under_store_unavailable_reason(self.under),
        )

    def ensure_free_bytes(self, size: int) -> int:
        """Evict until `size` bytes fit; returns the bytes that are still missing."""
        cached_bytes, expected_bytes = self.catalog.cache_usage()
        missing_bytes = cached_bytes + expected_bytes + size - self.limit
        if (free_bytes := self.cache.free_bytes()) is not None:
            missing_bytes = max(missing_bytes, expected_bytes + size - free_bytes)
        if missing_bytes <= 0:
            return 0
        freed_bytes = 0
        for victim in self.plan(missing_bytes).victims:
            try:
                freed_bytes += victim.bytes if self.evict(victim) else 0
            except UnderStoreUnavailableError as error:
                logger.warning("nothing is evicted: %s", error)
                break  # each further check would run into the same timeout
            except CatalogUnavailableError:
                raise
            except PersistenceError as error:  # its files are removed by the next sweep
                logger.warning("%s: its files could not be removed: %s", victim.ref, error)
        return max(missing_bytes - freed_bytes, 0)

    def ensure_headroom(self) -> int:
        """Evict for a write of unknown size on a disk that is smaller than the limit; returns the bytes still missing.

        A twentieth of the capacity is needed; a tenth, or the size of the largest generation, is attempted.
        """
        capacity = self.capacity
        if capacity == self.limit:
            return self.ensure_free_bytes(0)
        needed_bytes = capacity // 20 + 1
        desired_bytes = max(capacity // 10, self.catalog.largest_cached_bytes(), needed_bytes)
        return max(self.ensure_free_bytes(desired_bytes) - (desired_bytes - needed_bytes), 0)

    def evict(self, victim: Victim, *, actor: str = "") -> bool:
        """Evict one generation unless it has become needed; returns True if evicted. `actor` is who requested it.

        Raises `UnderStoreUnavailableError` if a copy that the eviction relies on cannot be checked.
        """
        return not self.try_evict(victim, actor=actor)

    def try_evict(self, victim: Victim, *, actor: str = "") -> str:
        """Like `evict`, but returns the reason why the generation stays in the cache; empty if it was evicted."""
        catalog = self.catalog.acting_as(actor) if actor else self.catalog
        copies = self._required_copies(catalog.get(victim.ref))
        try:
            reason = self._find_copy_problem(victim.ref, copies)
        except UnderStoreUnavailableError as error:
            raise UnderStoreUnavailableError(f"{victim.ref} stays in the cache: {error}") from error
        reason = reason or self._evict_in_transaction(catalog, victim, {(d.ref, d.under_location) for d in copies})
        return f"{victim.ref} stays in the cache: {reason}" if reason else ""

    def retention_reason(self, dataset: Dataset) -> str:
        """Return why the copies that an eviction of `dataset` relies on are not reliable now; empty if they are."""
        try:
            return self._find_copy_problem(dataset.ref, self._required_copies(dataset))
        except UnderStoreUnavailableError as error:
            return str(error)

    def evict_persisted(self, dataset: Dataset, reason: str) -> None:
        """Evict a persisted generation regardless of the eviction order.

        Raises `TransitionError`, `UnderStoreUnavailableError`, `CorruptCopyError` if its copy in the under-store is
        missing.
        """
        if problem := self.verifier.check_under_copy(dataset):
            raise CorruptCopyError(f"{dataset.ref}: {problem}")
        same_copy = {"under_location": dataset.under_location}
        self.catalog.change(dataset.ref, Event.EVICTED, reason=reason, only_if=same_copy)
        self.cache.delete(dataset.cache_location)

    def _evict_in_transaction(
        self, catalog: Catalog, victim: Victim, verified_copies: Collection[tuple[Ref, str]]
    ) -> str:
        """Evict a generation, relying only on the copies in `verified_copies`.

        Returns the reason why it stays in the cache, empty if it was evicted.
        """
        with catalog.write_transaction() as connection:
            identity = key_of(connection, victim.ref)
            row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
            active_reads = select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now())
            if row.pinned or connection.execute(active_reads).first():
                return "it is pinned" if row.pinned else "it is being read"
            if row.under == UnderStoreState.PRESENT.value:
                if (victim.ref, row.under_location) not in verified_copies:
                    return "its copy in the under-store has changed since the request"
            elif not self._may_evict_unpersisted(connection, row, victim, verified_copies):
                return "it is not persisted, and the sources of its recomputation cannot be relied on"
            try:
                catalog.apply(connection, identity, Event.EVICTED, reason=f"{victim.rule}: {victim.reason}")
            except TransitionError as refusal:
                return str(refusal)
            evicted = load_datasets(connection, [identity])[identity]
        catalog.notify(Event.EVICTED, evicted)
        self.cache.delete(row.cache_location)
        return ""

    def _required_copies(self, dataset: Dataset) -> list[Dataset]:
        """Return the generations whose copies in the under-store an eviction of `dataset` relies on.

        The dataset itself if it is persisted; else the sources for recomputing it that are not in the cache.
        """
        if dataset.persisted:
            return [dataset]
        if dataset.strategy is Strategy.CACHE_ONLY:  # this strategy guarantees nothing
            return []
        return [source for source in self.catalog.get_all(dataset.sources) if source.persisted and not source.in_cache]

    def _find_copy_problem(self, ref: Ref, copies: Iterable[Dataset]) -> str:
        for dataset in copies:
            if problem := self.verifier.check_under_copy(dataset):
                return problem if dataset.ref == ref else f"its recomputation would need {dataset.ref}: {problem}"
        return ""

    @staticmethod
    def _may_evict_unpersisted(
        connection: Connection, row: Row[Any], victim: Victim, verified_copies: Collection[tuple[Ref, str]]
    ) -> bool:
        """Whether it is one repeatable step from readable sources, and no evicted generation depends on it.

        A source in the under-store counts if its copy is one of `verified_copies`. A cache_only generation need not be
        recomputable, since that strategy guarantees nothing.
        """
        dependent = generation.alias()
        dependents = (
            select(dependent.c.id)
            .join(source, source.c.generation_id == dependent.c.id)
            .where(
                source.c.source_id == row.id,
                dependent.c.phase == Phase.COMMITTED.value,
                dependent.c.cache != CacheState.PRESENT.value,
                dependent.c.under != UnderStoreState.PRESENT.value,
            )
        )
        if row.strategy == Strategy.CACHE_ONLY.value and victim.rule == "not_requested":
            others = dependent.c.strategy != Strategy.CACHE_ONLY.value
            return connection.execute(dependents.where(others)).first() is None
        upstream = generation.alias()
        sources = connection.execute(
            select(
                upstream.c.path, upstream.c.generation, upstream.c.cache, upstream.c.under, upstream.c.under_location
            )
            .join(source, source.c.source_id == upstream.c.id)
            .where(source.c.generation_id == row.id)
            .order_by(upstream.c.id.desc())
            .with_for_update(of=upstream)  # the sources stay until this generation is evicted
        ).all()
        repeatable = connection.execute(
            select(operation.c.name).where(
                operation.c.name == row.operation,
                operation.c.version == row.version,
                operation.c.idempotent,
                operation.c.runnable,
                ~operation.c.nondeterministic,
                operation.c.repeats >= 1,
            )
        ).first()
        sources_readable = all(
            s.cache == CacheState.PRESENT.value
            or (
                s.under == UnderStoreState.PRESENT.value
                and (Ref(s.path, s.generation), s.under_location) in verified_copies
            )
            for s in sources
        )
        is_evictable_rule = victim.rule in ("not_requested", "alternate")
        return (
            is_evictable_rule
            and sources_readable
            and repeatable is not None
            and connection.execute(dependents).first() is None
        )


def victim_by_hand(ref: Ref, size: int) -> Victim:
    """Return a victim chosen by a person; only a persisted generation may be evicted this way."""
    return Victim(ref, size, "persisted", "requested manually")
