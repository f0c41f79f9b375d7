"""Makes room in the cache: carries eviction plans out, each eviction one transaction that checks again."""

from __future__ import annotations

from sqlalchemy import select

from persistence import schema
from persistence.backends.spec import Backend
from persistence.catalog import Catalog
from persistence.errors import RefusedTransition
from persistence.eviction import EvictionPlan, Victim, plan_eviction
from persistence.model import Cache, Dataset, Phase, Ref, Under
from persistence.schema import db_now, generation, reader, source
from persistence.transitions import Event


class Replacement:
    """Keeps the cache within `capacity` bytes; `order` is lru or lrfu."""

    def __init__(self, catalog: Catalog, cache: Backend, *, capacity: int, order: str) -> None:
        self._catalog = catalog
        self._cache = cache
        self.capacity = capacity
        self._order = order

    def plan(self, needed: int) -> EvictionPlan:
        """What would leave the cache to free `needed` bytes."""
        lineage = self._catalog.lineage_of_cache()
        busy = {ref for ref, d in lineage.datasets.items() if d.under is Under.COPYING or d.phase is Phase.OPEN}
        protected = self._catalog.held_refs() | busy
        return plan_eviction(
            lineage, needed, protected=frozenset(protected), replacement=self._order, now=self._catalog.now()
        )

    def make_room(self, size: int) -> int:
        """Let go what may go until `size` bytes fit; returns the bytes that are still missing."""
        missing = self._catalog.cache_used() + size - self.capacity
        if missing <= 0:
            return 0
        freed = sum(victim.bytes for victim in self.plan(missing).victims if self.evict(victim))
        return max(missing - freed, 0)

    def evict(self, victim: Victim) -> bool:
        """Let one generation go, unless it is needed after all by now; True if it went."""
        with self._catalog.writing() as connection:
            identity = self._catalog.identity(connection, victim.ref)
            row = connection.execute(select(generation).where(generation.c.id == identity)).one()
            reading = select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now())
            if row.pinned or row.under == Under.COPYING.value or connection.execute(reading).first():
                return False
            if victim.rule == "alternate" and not self._one_step_away(connection, identity):
                return False
            try:
                self._catalog.apply(connection, identity, Event.EVICTED, why=f"{victim.rule}: {victim.words}")
            except RefusedTransition:
                return False
        self._cache.delete(row.cache_location)
        return True

    def evict_all_of(self, dataset: Dataset, why: str) -> None:
        """Let a persisted generation go, whatever its turn; raises `RefusedTransition`."""
        self._catalog.change(dataset.ref, Event.EVICTED, why=why)
        self._cache.delete(dataset.cache_location)

    @staticmethod
    def _one_step_away(connection, identity: int) -> bool:  # type: ignore[no-untyped-def]
        """Whether every source can still be read now, and nothing evicted leans on this generation."""
        upstream = generation.alias()
        sources = connection.execute(
            select(upstream.c.cache, upstream.c.under)
            .join(source, source.c.source_id == upstream.c.id)
            .where(source.c.generation_id == identity)
        ).all()
        at_hand = all(s.cache == Cache.PRESENT.value or s.under == Under.PRESENT.value for s in sources)
        leaning = connection.execute(
            select(source.c.generation_id)
            .join(generation, generation.c.id == source.c.generation_id)
            .where(source.c.source_id == identity, schema.unsettled, generation.c.cache == Cache.EVICTED.value)
        ).first()
        return at_hand and leaning is None


def evicted_by_hand(ref: Ref, size: int) -> Victim:
    """A victim that a person chose; only a persisted one may be chosen so."""
    return Victim(ref, size, "persisted", "asked for by hand")
