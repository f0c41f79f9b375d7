"""The queue of generations to persist, and the leases by which workers claim from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select, update
from sqlalchemy.exc import OperationalError

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.lease_renewal import renewal
from springline.persistence.catalog.records import chunks_of, key_of, keys_of, load_datasets
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.errors import CatalogUnavailableError, TransitionError
from springline.persistence.model.dataset import Dataset, Ref, TransferMethod
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redact_secrets

_MAX_PAUSE_SECONDS = 60.0
_REPORT_SECONDS = 2.0  # between two reports of a transfer's progress, if its lease does not require more
_MAX_DOUBLINGS = 100  # beyond it every pause is the longest one, and a double would overflow


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim on the transfer of one generation; `number` increases with every claim on it.

    `attempts` counts the claims on it so far, including this one.
    """

    ref: Ref
    number: int
    owner: str
    attempts: int = 1


class LeaseLostError(TransitionError):
    """The lease expired and another worker took the transfer over."""


class Claims:
    """Claims with leases: a worker that does not renew for `lease_seconds` of the database's clock loses its claim."""

    def __init__(self, catalog: Catalog, lease_seconds: float) -> None:
        self._catalog = catalog
        self._seconds = lease_seconds

    def list_claimable(self, limit: int, offset: int = 0) -> list[Ref]:
        """Return the generations that may be claimed now: the head of the queue first, then by stored score."""
        query = (
            select(generation.c.path, generation.c.generation)
            .where(schema.is_waiting, generation.c.not_before <= db_now())
            .order_by(generation.c.expedited.desc(), generation.c.score.desc(), generation.c.id)
            .limit(limit)
            .offset(offset)
        )
        with self._catalog.read_transaction() as connection:
            return [Ref(row.path, row.generation) for row in connection.execute(query)]

    def depth(self) -> int:
        """Return how many generations are still to be persisted: queued, pausing after a failure, or in transfer."""
        return self.queue_size()[0]

    def queue_size(self) -> tuple[int, int]:
        """Return how many generations are still to be persisted, and their bytes."""
        is_unfinished = or_(
            schema.is_waiting, (generation.c.persist_requested & schema.is_copying & schema.is_committed)
        )
        query = select(func.count(), func.coalesce(func.sum(generation.c.bytes), 0)).where(is_unfinished)
        with self._catalog.read_transaction() as connection:
            length, size = connection.execute(query).one()
            return int(length), int(size)

    def has_sync_waiter(self) -> bool:
        """Whether a job is blocked on a transfer now, that is, on one of a generation that is not committed yet.

        Returns False if the database does not respond, since the caller is itself in the middle of a transfer.
        """
        query = (
            select(generation.c.id)
            .where(schema.is_copying, generation.c.lease_until > db_now(), not_(schema.is_committed))
            .limit(1)
        )
        with (
            suppress(OperationalError, CatalogUnavailableError),
            self._catalog.read_transaction(timeout=0) as connection,
        ):
            return connection.scalar(query) is not None
        return False

    def is_any_in_flight(self, refs: Iterable[Ref]) -> bool:
        """Whether any of `refs` is being sent under a lease that has not expired."""
        with self._catalog.read_transaction() as connection:
            live = select(generation.c.id).where(schema.is_copying, generation.c.lease_until > db_now()).limit(1)
            return any(
                connection.scalar(live.where(generation.c.id.in_(part))) is not None
                for part in chunks_of(keys_of(connection, list(refs)))
            )

    def count_ahead(self, dataset: Dataset, score: float, limit: int = 1000) -> int:
        """Count the queued generations that precede one with this score, up to `limit`."""
        if not dataset.expedited:
            before = or_(generation.c.expedited, generation.c.score > score)
        else:
            before = generation.c.expedited & (generation.c.score > score)
        first = select(generation.c.id).where(schema.is_waiting, before).limit(limit).subquery()
        with self._catalog.read_transaction() as connection:
            return int(connection.scalar(select(func.count()).select_from(first)) or 0)

    def rescore(self, ref: Ref, score: float) -> None:
        """Store a recomputed score."""
        self._catalog.amend(ref, score=score)

    def claim(self, ref: Ref, owner: str, method: TransferMethod, predicted_seconds: float | None) -> Lease | None:
        """Claim the transfer of `ref`; returns None if another worker was first."""
        with self._catalog.write_transaction() as connection:
            identity = key_of(connection, ref)
            try:
                self._catalog.apply(
                    connection,
                    identity,
                    Event.CLAIMED,
                    reason=f"{method} by {owner}",
                    lease_owner=owner,
                    lease_number=generation.c.lease_number + 1,
                    lease_until=db_now() + self._seconds,
                    claimed_at=db_now(),
                    sent_bytes=0,
                    method=method.value,
                    predicted_seconds=predicted_seconds,
                    attempts=generation.c.attempts + 1,
                )
            except TransitionError:
                return None
            claimed = select(generation.c.lease_number, generation.c.attempts).where(generation.c.id == identity)
            row = connection.execute(claimed).one()
            return Lease(ref, row.lease_number, owner, row.attempts)

    def renew(self, lease: Lease, sent_bytes: int = 0) -> bool:
        """Extend a lease, and record the bytes sent so far; returns False if it was lost."""
        with self._catalog.write_transaction() as connection:
            renewed = connection.execute(
                update(generation)
                .where(self._matches_lease(lease))
                .values(lease_until=db_now() + self._seconds, sent_bytes=sent_bytes)
            ).rowcount
            return renewed == 1

    def change_method(self, lease: Lease, method: TransferMethod, predicted_seconds: float | None) -> None:
        """Record that the transfer continues with another method than claimed; no effect if the lease was lost."""
        with self._catalog.write_transaction() as connection:
            connection.execute(
                update(generation)
                .where(self._matches_lease(lease))
                .values(method=method.value, predicted_seconds=predicted_seconds)
            )

    def renewing(
        self, lease: Lease, sent_bytes: Callable[[], int] = lambda: 0
    ) -> AbstractContextManager[threading.Event]:
        """Renew `lease` in the background inside the block; the event is set once the lease is lost.

        `sent_bytes` returns the progress of the transfer, which is recorded with every renewal.
        """
        interval = min(self._seconds / 3, _REPORT_SECONDS)
        return renewal(lambda: self.renew(lease, sent_bytes()), interval, f"lease {lease.ref}")

    @staticmethod
    def _matches_lease(lease: Lease) -> ColumnElement[bool]:
        return and_(
            generation.c.path == lease.ref.path,
            generation.c.generation == lease.ref.generation,
            generation.c.lease_number == lease.number,
            schema.is_copying,
        )

    def complete(
        self,
        lease: Lease,
        *,
        method: TransferMethod,
        location: str,
        checksum: str,
        actual_seconds: float,
        cost: str = "",
    ) -> Dataset:
        """Record the verified copy at `location` as the valid one; `cost` describes what was paid for it, if anything.

        Raises `LeaseLostError` if the lease is not the newest.
        """
        try:
            return self._catalog.change(
                lease.ref,
                Event.COPIED,
                reason=f"{method} by {lease.owner}{f', with {cost}' if cost else ''}",
                only_if={"lease_number": lease.number},
                method=method.value,
                under_location=location,
                under_checksum=checksum,
                actual_seconds=actual_seconds,
                persisted_at=db_now(),
                lease_until=None,
                expedited=False,
                error="",
            )
        except TransitionError as refusal:
            raise LeaseLostError(str(refusal)) from refusal

    def release(self, lease: Lease, reason: str, *, pause: float = 0.0, attempts: int = 1, **columns: Any) -> bool:
        """Release a claim; it can be claimed again after `pause` seconds, doubled for each attempt so far.

        Returns False, without any change, if the lease had expired and another worker has released it already.
        """
        reason = redact_secrets(reason)
        doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
        wait = min(pause * 2.0**doublings, _MAX_PAUSE_SECONDS)
        try:
            self._catalog.change(
                lease.ref,
                Event.RELEASED,
                reason=reason,
                only_if={"lease_number": lease.number},
                lease_until=None,
                not_before=db_now() + wait,
                error=reason,
                **columns,
            )
        except TransitionError:
            return False
        return True

    def expire(self) -> list[Lease]:
        """Release the claims whose leases expired; returns them, so that their partial copies can be swept."""
        query = select(
            generation.c.id, generation.c.path, generation.c.generation, generation.c.lease_number,
            generation.c.lease_owner, generation.c.lease_until,
        ).where(schema.is_copying, generation.c.lease_until < db_now())  # fmt: skip
        with self._catalog.read_transaction() as connection:
            overdue = connection.execute(query).all()
        expired = []
        for row in overdue:
            reason = f"the lease of {row.lease_owner} expired"
            unless_renewed = {"lease_number": row.lease_number, "lease_until": row.lease_until}
            # TransitionError: another worker has just renewed, completed or released it.
            with suppress(TransitionError), self._catalog.write_transaction() as connection:
                self._catalog.apply(
                    connection,
                    row.id,
                    Event.RELEASED,
                    reason=reason,
                    only_if=unless_renewed,
                    lease_until=None,
                    error=reason,
                )
                lease = Lease(Ref(row.path, row.generation), row.lease_number, row.lease_owner)
                expired.append((lease, load_datasets(connection, [row.id])[row.id]))
        for _, dataset in expired:
            self._catalog.notify(Event.RELEASED, dataset)
        return [lease for lease, _ in expired]
