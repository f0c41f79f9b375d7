"""The queue of what waits to be persisted, and the leases by which workers claim from it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select, update
from sqlalchemy.exc import OperationalError

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.lease_renewal import renewal
from springline.persistence.catalog.records import key_of, keys_of, load, sliced
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.errors import CatalogUnavailableError, TransitionError
from springline.persistence.model.dataset import Dataset, Method, Ref
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redacted

_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim on the transfer of one generation; `number` grows with every claim on it.

    `attempts` counts the claims on it so far, this one included.
    """

    ref: Ref
    number: int
    owner: str
    attempts: int = 1


class LeaseLostError(TransitionError):
    """The lease ran out and somebody else took the transfer over."""


class Claims:
    """Claims by lease: whoever is silent for `lease_seconds` of the database's clock loses what it claimed."""

    def __init__(self, catalog: Catalog, lease_seconds: float) -> None:
        self._catalog = catalog
        self._seconds = lease_seconds

    def waiting(self, limit: int, offset: int = 0) -> list[Ref]:
        """What may be claimed now, by the head of the queue first, then by stored score."""
        query = (
            select(generation.c.path, generation.c.generation)
            .where(schema.waiting, generation.c.not_before <= db_now())
            .order_by(generation.c.head.desc(), generation.c.score.desc(), generation.c.id)
            .limit(limit)
            .offset(offset)
        )
        with self._catalog.reading() as connection:
            return [Ref(row.path, row.generation) for row in connection.execute(query)]

    def depth(self) -> int:
        """How many generations still want persisting: waiting, pausing after a failure, or under way."""
        return self.queue()[0]

    def queue(self) -> tuple[int, int]:
        """How many generations still want persisting, and their bytes."""
        wanting = or_(schema.waiting, (generation.c.wanted & schema.copying & schema.committed))
        query = select(func.count(), func.coalesce(func.sum(generation.c.bytes), 0)).where(wanting)
        with self._catalog.reading() as connection:
            length, size = connection.execute(query).one()
            return int(length), int(size)

    def somebody_waits(self) -> bool:
        """Whether a job waits for a transfer now: one of a generation that is committed once its copy is there.

        No answer of the database counts as no: whoever asks is in the middle of a transfer of its own.
        """
        query = (
            select(generation.c.id)
            .where(schema.copying, generation.c.lease_until > db_now(), not_(schema.committed))
            .limit(1)
        )
        with suppress(OperationalError, CatalogUnavailableError), self._catalog.reading(patience=0) as connection:
            return connection.scalar(query) is not None
        return False

    def under_way(self, refs: Iterable[Ref]) -> bool:
        """Whether any of `refs` is being sent under a lease that has not run out."""
        with self._catalog.reading() as connection:
            live = select(generation.c.id).where(schema.copying, generation.c.lease_until > db_now()).limit(1)
            return any(
                connection.scalar(live.where(generation.c.id.in_(part))) is not None
                for part in sliced(keys_of(connection, list(refs)))
            )

    def ahead_of(self, dataset: Dataset, score: float, most: int = 1000) -> int:
        """How many waiting generations come before one of this score; counts up to `most`."""
        if not dataset.head:
            before = or_(generation.c.head, generation.c.score > score)
        else:
            before = generation.c.head & (generation.c.score > score)
        first = select(generation.c.id).where(schema.waiting, before).limit(most).subquery()
        with self._catalog.reading() as connection:
            return int(connection.scalar(select(func.count()).select_from(first)) or 0)

    def rescore(self, ref: Ref, score: float) -> None:
        """Store a score that was worked out anew."""
        self._catalog.amend(ref, score=score)

    def claim(self, ref: Ref, owner: str, method: Method, predicted_seconds: float | None) -> Lease | None:
        """Claim the transfer of `ref`; None if another worker was first."""
        with self._catalog.writing() as connection:
            identity = key_of(connection, ref)
            try:
                self._catalog.apply(
                    connection,
                    identity,
                    Event.CLAIMED,
                    why=f"{method} by {owner}",
                    lease_owner=owner,
                    lease_number=generation.c.lease_number + 1,
                    lease_until=db_now() + self._seconds,
                    method=method.value,
                    predicted_seconds=predicted_seconds,
                    attempts=generation.c.attempts + 1,
                )
            except TransitionError:
                return None
            now = select(generation.c.lease_number, generation.c.attempts).where(generation.c.id == identity)
            row = connection.execute(now).one()
            return Lease(ref, row.lease_number, owner, row.attempts)

    def renew(self, lease: Lease) -> bool:
        """Prolong a lease; False if it was lost."""
        with self._catalog.writing() as connection:
            renewed = connection.execute(
                update(generation).where(self._is(lease)).values(lease_until=db_now() + self._seconds)
            ).rowcount
            return renewed == 1

    def now_by(self, lease: Lease, method: Method, predicted_seconds: float | None) -> None:
        """Record that the transfer goes on by another method than was claimed; nothing if the lease was lost."""
        with self._catalog.writing() as connection:
            connection.execute(
                update(generation)
                .where(self._is(lease))
                .values(method=method.value, predicted_seconds=predicted_seconds)
            )

    def renewed(self, lease: Lease) -> AbstractContextManager[threading.Event]:
        """Renew `lease` in the background while inside; the event is set once it was lost."""
        return renewal(lambda: self.renew(lease), self._seconds / 3, f"lease {lease.ref}")

    @staticmethod
    def _is(lease: Lease) -> ColumnElement[bool]:
        return and_(
            generation.c.path == lease.ref.path,
            generation.c.generation == lease.ref.generation,
            generation.c.lease_number == lease.number,
            schema.copying,
        )

    def settle(self, lease: Lease, *, method: Method, location: str, checksum: str, actual_seconds: float) -> Dataset:
        """Record the verified copy at `location` as the winner.

        Raises `LeaseLostError` if the lease is not the newest.
        """
        try:
            return self._catalog.change(
                lease.ref,
                Event.COPIED,
                why=f"{method} by {lease.owner}",
                only_if={"lease_number": lease.number},
                method=method.value,
                under_location=location,
                under_checksum=checksum,
                actual_seconds=actual_seconds,
                persisted_at=db_now(),
                lease_until=None,
                head=False,
                error="",
            )
        except TransitionError as refusal:
            raise LeaseLostError(str(refusal)) from refusal

    def release(self, lease: Lease, why: str, *, pause: float = 0.0, attempts: int = 1, **also: Any) -> bool:
        """Give a claim back; it may be claimed again after `pause` seconds, doubled for each attempt so far.

        False if the lease had run out, so that somebody else has released it already; then nothing changes.
        """
        why = redacted(why)
        wait = min(pause * 2 ** max(attempts - 1, 0), _LONGEST_PAUSE)
        try:
            self._catalog.change(
                lease.ref,
                Event.RELEASED,
                why=why,
                only_if={"lease_number": lease.number},
                lease_until=None,
                not_before=db_now() + wait,
                error=why,
                **also,
            )
        except TransitionError:
            return False
        return True

    def expire(self) -> list[Lease]:
        """Take back the claims whose leases ran out; returns them, so that their half copies can be swept."""
        query = select(
            generation.c.id, generation.c.path, generation.c.generation, generation.c.lease_number,
            generation.c.lease_owner, generation.c.lease_until,
        ).where(schema.copying, generation.c.lease_until < db_now())  # fmt: skip
        with self._catalog.reading() as connection:
            silent = connection.execute(query).all()
        taken = []
        for row in silent:
            why = f"the lease of {row.lease_owner} ran out"
            unless_renewed = {"lease_number": row.lease_number, "lease_until": row.lease_until}
            # Refused: it was renewed, settled or taken back by somebody else just now.
            with suppress(TransitionError), self._catalog.writing() as connection:
                self._catalog.apply(
                    connection, row.id, Event.RELEASED, why=why, only_if=unless_renewed, lease_until=None, error=why
                )
                lease = Lease(Ref(row.path, row.generation), row.lease_number, row.lease_owner)
                taken.append((lease, load(connection, [row.id])[row.id]))
        for _, dataset in taken:
            self._catalog.announce(Event.RELEASED, dataset)
        return [lease for lease, _ in taken]
