"""Makes room in the cache: carries eviction plans out, each eviction one transaction that checks again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from persistence.backends.spec import Backend
from persistence.catalog import Catalog
from persistence.errors import RefusedTransition
from persistence.eviction import EvictionPlan, Victim, plan_eviction
from persistence.model import Cache, Dataset, Phase, Ref, Strategy, Under
from persistence.records import key_of, load
from persistence.schema import db_now, generation, operation, reader, source
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

    def evict(self, victim: Victim, *, who: str = "") -> bool:
        """Let one generation go, unless it is needed after all by now; True if it went. `who` asked for it, if told."""
        catalog = self._catalog.acting_as(who) if who else self._catalog
        with catalog.writing() as connection:
            identity = key_of(connection, victim.ref)
            row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
            reading = select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now())
            if row.pinned or connection.execute(reading).first():
                return False
            if row.under != Under.PRESENT.value and not self._may_go_unpersisted(connection, row, victim):
                return False
            try:
                catalog.apply(connection, identity, Event.EVICTED, why=f"{victim.rule}: {victim.words}")
            except RefusedTransition:
                return False
            dataset = load(connection, [identity])[identity]
        catalog.announce(Event.EVICTED, dataset)
        self._cache.delete(row.cache_location)
        return True

    def evict_all_of(self, dataset: Dataset, why: str) -> None:
        """Let a persisted generation go, whatever its turn; raises `RefusedTransition`."""
        self._catalog.change(dataset.ref, Event.EVICTED, why=why)
        self._cache.delete(dataset.cache_location)

    @staticmethod
    def _may_go_unpersisted(connection: Connection, row: Row[Any], victim: Victim) -> bool:
        """Whether it is one repeatable step from sources that can be read now, and nothing that has gone leans on it.

        What was written as cache_only need not be, as that strategy promises nothing.
        """
        dependent = generation.alias()
        leaning = (
            select(dependent.c.id)
            .join(source, source.c.generation_id == dependent.c.id)
            .where(
                source.c.source_id == row.id,
                dependent.c.phase == Phase.COMMITTED.value,
                dependent.c.cache != Cache.PRESENT.value,
                dependent.c.under != Under.PRESENT.value,
            )
        )
        if row.strategy == Strategy.CACHE_ONLY.value and victim.rule == "unwanted":
            others = dependent.c.strategy != Strategy.CACHE_ONLY.value
            return connection.execute(leaning.where(others)).first() is None
        upstream = generation.alias()
        sources = connection.execute(
            select(upstream.c.cache, upstream.c.under)
            .join(source, source.c.source_id == upstream.c.id)
            .where(source.c.generation_id == row.id)
            .order_by(upstream.c.id.desc())
            .with_for_update(of=upstream)  # they stay until this one has gone
        ).all()
        repeats = connection.execute(
            select(operation.c.name).where(
                operation.c.name == row.operation,
                operation.c.version == row.version,
                operation.c.idempotent,
                operation.c.runnable,
                ~operation.c.unmasked,
                operation.c.repeats >= 1,
            )
        ).first()
        at_hand = all(s.cache == Cache.PRESENT.value or s.under == Under.PRESENT.value for s in sources)
        asked_for = victim.rule in ("unwanted", "alternate")
        return asked_for and at_hand and repeats is not None and connection.execute(leaning).first() is None


def evicted_by_hand(ref: Ref, size: int) -> Victim:
    """A victim that a person chose; only a persisted one may be chosen so."""
    return Victim(ref, size, "persisted", "asked for by hand")
