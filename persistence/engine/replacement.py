"""Makes room in the cache: carries eviction plans out, each eviction one transaction that checks again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Row, select

from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import key_of, load
from springline.persistence.catalog.schema import db_now, generation, operation, reader, source
from springline.persistence.decisions.eviction import EvictionPlan, Victim, plan_eviction
from springline.persistence.engine.verification import Verifier, why_away
from springline.persistence.errors import CorruptCopyError, TransitionError, UnderStoreUnavailableError
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref, Strategy, Under
from springline.persistence.model.transitions import Event

logger = logging.getLogger("springline.replacement")


class Replacement:
    """Keeps the cache within `capacity` bytes; `order` is lru or lrfu.

    The catalog's word that a copy is in the under-store is not enough to let the cached bytes go: the store is asked
    first, outside of any transaction, since it may be slow. What holds between its answer and the eviction: the
    platform removes no copy that the catalog names for a committed generation, other than by a change of state, and
    the transaction takes only the very copies that were asked for, named still. A hand that deletes files in the
    store at that very moment, no order of asking could hold off.
    """

    def __init__(
        self, catalog: Catalog, cache: Backend, under: Backend, verifier: Verifier, *, capacity: int, order: str
    ) -> None:
        self.catalog = catalog
        self.cache = cache
        self.under = under
        self.verifier = verifier
        self.capacity = capacity
        self._order = order

    def plan(self, needed: int) -> EvictionPlan:
        """What would leave the cache to free `needed` bytes; the under-store is asked once whether it answers."""
        lineage = self.catalog.lineage_of_cache()
        busy = {ref for ref, d in lineage.datasets.items() if d.under is Under.COPYING or d.phase is Phase.OPEN}
        protected = self.catalog.held_refs() | busy
        return plan_eviction(
            lineage,
            needed,
            protected=frozenset(protected),
            replacement=self._order,
            now=self.catalog.now(),
            away=why_away(self.under),
        )

    def make_room(self, size: int) -> int:
        """Let go what may go until `size` bytes fit; returns the bytes that are still missing."""
        missing = self.catalog.cache_used() + size - self.capacity
        if missing <= 0:
            return 0
        freed = 0
        for victim in self.plan(missing).victims:
            try:
                freed += victim.bytes if self.evict(victim) else 0
            except UnderStoreUnavailableError as error:
                logger.warning("the cache stays as it is: %s", error)
                break  # each further question would wait for the same answer
        return max(missing - freed, 0)

    def evict(self, victim: Victim, *, who: str = "") -> bool:
        """Let one generation go, unless it is needed after all by now; True if it went. `who` asked for it, if told.

        Raises `UnderStoreUnavailableError` if a copy that it rests on cannot be asked for.
        """
        return not self.let_go(victim, who=who)

    def let_go(self, victim: Victim, *, who: str = "") -> str:
        """`evict`, but returns what stays and why; empty: it went."""
        catalog = self.catalog.acting_as(who) if who else self.catalog
        copies = self._copies_under(catalog.get(victim.ref))
        try:
            why = self._why_not_below(victim.ref, copies)
        except UnderStoreUnavailableError as error:
            raise UnderStoreUnavailableError(f"{victim.ref} stays in the cache: {error}") from error
        why = why or self._let_go(catalog, victim, {(d.ref, d.under_location) for d in copies})
        return f"{victim.ref} stays in the cache: {why}" if why else ""

    def why_it_stays(self, dataset: Dataset) -> str:
        """Why the copies that a generation's eviction rests on may not be relied on now; empty: they may."""
        try:
            return self._why_not_below(dataset.ref, self._copies_under(dataset))
        except UnderStoreUnavailableError as error:
            return str(error)

    def evict_all_of(self, dataset: Dataset, why: str) -> None:
        """Let a persisted generation go, whatever its turn.

        Raises `TransitionError`, `UnderStoreUnavailableError`, `CorruptCopyError` if its copy in the under-store is not
        there.
        """
        if reason := self.verifier.why_not_below(dataset):
            raise CorruptCopyError(f"{dataset.ref}: {reason}")
        same_copy = {"under_location": dataset.under_location}
        self.catalog.change(dataset.ref, Event.EVICTED, why=why, only_if=same_copy)
        self.cache.delete(dataset.cache_location)

    def _let_go(self, catalog: Catalog, victim: Victim, relied_on: Collection[tuple[Ref, str]]) -> str:
        """Let a generation go by the word of the copies in `relied_on`; returns why it stays, empty if it went."""
        with catalog.writing() as connection:
            identity = key_of(connection, victim.ref)
            row = connection.execute(select(generation).where(generation.c.id == identity).with_for_update()).one()
            reading = select(reader.c.id).where(reader.c.generation_id == identity, reader.c.until > db_now())
            if row.pinned or connection.execute(reading).first():
                return "it is pinned" if row.pinned else "it is being read"
            if row.under == Under.PRESENT.value:
                if (victim.ref, row.under_location) not in relied_on:
                    return "it has another copy in the under-store by now, which was not asked for"
            elif not self._may_go_unpersisted(connection, row, victim, relied_on):
                return "it is not persisted, and what it would be made again from may not be relied on"
            try:
                catalog.apply(connection, identity, Event.EVICTED, why=f"{victim.rule}: {victim.words}")
            except TransitionError as refusal:
                return str(refusal)
            gone = load(connection, [identity])[identity]
        catalog.announce(Event.EVICTED, gone)
        self.cache.delete(row.cache_location)
        return ""

    def _copies_under(self, dataset: Dataset) -> list[Dataset]:
        """The generations whose copies in the under-store are all that is left of them if `dataset` goes.

        Itself, if it is persisted; else the sources that it would be made again from, where they are not in the cache.
        """
        if dataset.persisted:
            return [dataset]
        if dataset.strategy is Strategy.CACHE_ONLY:  # it promises nothing
            return []
        return [source for source in self.catalog.get_all(dataset.sources) if source.persisted and not source.in_cache]

    def _why_not_below(self, ref: Ref, copies: Iterable[Dataset]) -> str:
        for dataset in copies:
            if why := self.verifier.why_not_below(dataset):
                return why if dataset.ref == ref else f"it would be made again from {dataset.ref}: {why}"
        return ""

    @staticmethod
    def _may_go_unpersisted(
        connection: Connection, row: Row[Any], victim: Victim, relied_on: Collection[tuple[Ref, str]]
    ) -> bool:
        """Whether it is one repeatable step from sources that can be read now, and nothing that has gone leans on it.

        A source in the under-store counts if its copy is one of `relied_on`. What was written as cache_only need not
        be made again, as that strategy promises nothing.
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
            select(
                upstream.c.path, upstream.c.generation, upstream.c.cache, upstream.c.under, upstream.c.under_location
            )
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
        at_hand = all(
            s.cache == Cache.PRESENT.value
            or (s.under == Under.PRESENT.value and (Ref(s.path, s.generation), s.under_location) in relied_on)
            for s in sources
        )
        asked_for = victim.rule in ("unwanted", "alternate")
        return asked_for and at_hand and repeats is not None and connection.execute(leaning).first() is None


def evicted_by_hand(ref: Ref, size: int) -> Victim:
    """A victim that a person chose; only a persisted one may be chosen so."""
    return Victim(ref, size, "persisted", "asked for by hand")
