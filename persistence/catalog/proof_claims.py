"""Who proves which operation: one worker at a time, under a lease, and where in the cache it writes meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.lineage_query import lineage_from
from springline.persistence.catalog.records import insert_of
from springline.persistence.catalog.schema import db_now, generation, operation, proof
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.redaction import redacted

_OUTPUTS = 20  # of an operation that are looked at: so many of the largest, so many of the dearest
_FIRST_PAUSE = 60.0
_LONGEST_PAUSE = 86400.0


@dataclass(frozen=True, slots=True)
class ProofLease:
    """A worker's claim on the proof of an operation; `number` grows with every claim.

    `scratch` is where it writes in the cache, `attempts` how many tries there were since the last that did not fail.
    """

    operation: str
    version: str
    number: int
    scratch: str
    attempts: int


class ProofClaims:
    """Claims by lease, as for transfers: whoever is silent for `lease_seconds` loses what it claimed."""

    def __init__(self, catalog: Catalog, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._catalog = catalog

    def candidates(self) -> Lineage:
        """The largest and the dearest outputs of operations that are only declared idempotent, and their sources."""
        declared = and_(
            operation.c.idempotent, operation.c.runnable, ~operation.c.unmasked, operation.c.repeats == 0
        )  # fmt: skip
        found: dict[int, None] = {}
        with self._catalog.reading() as connection:
            for name, version in connection.execute(select(operation.c.name, operation.c.version).where(declared)):
                made = and_(generation.c.operation == name, generation.c.version == version, generation.c.digest != "")
                outputs = select(generation.c.id).where(made, schema.committed).limit(_OUTPUTS)
                for size in (generation.c.bytes, func.coalesce(generation.c.made_seconds, 0.0)):
                    found |= dict.fromkeys(connection.scalars(outputs.order_by(size.desc())))
            return lineage_from(connection, list(found), down=False)

    def claim(self, name: str, version: str, owner: str, scratch: str) -> ProofLease | None:
        """Claim the proof of an operation; None if another worker is at it, or it pauses after a failure."""
        free = and_(proof.c.lease_until.is_(None), proof.c.scratch == "", proof.c.not_before <= db_now())
        with self._catalog.writing() as connection:
            fresh = insert_of(connection, proof).values(operation=name, version=version)
            connection.execute(fresh.on_conflict_do_nothing())
            mine = and_(proof.c.operation == name, proof.c.version == version)
            claimed = update(proof).where(mine, free).values(
                lease_owner=owner, lease_number=proof.c.lease_number + 1, lease_until=db_now() + self.lease_seconds,
                attempts=proof.c.attempts + 1, scratch=scratch,
            )  # fmt: skip
            row = connection.execute(claimed.returning(proof.c.lease_number, proof.c.attempts)).first()
        return None if row is None else ProofLease(name, version, row.lease_number, scratch, row.attempts)

    def renew(self, lease: ProofLease) -> bool:
        """Prolong a lease; False if it was lost."""
        with self._catalog.writing() as connection:
            renewed = update(proof).where(_is(lease)).values(lease_until=db_now() + self.lease_seconds)
            return connection.execute(renewed).rowcount == 1

    def release(self, lease: ProofLease, error: str = "", *, failed: bool = False) -> None:
        """Give a claim back once its scratch is gone; after a failure with a pause, up to a day."""
        pause = min(_FIRST_PAUSE * 2 ** min(lease.attempts - 1, 20), _LONGEST_PAUSE) if failed else 0.0
        released = update(proof).where(_is(lease)).values(
            lease_until=None, scratch="", error=redacted(error), not_before=db_now() + pause,
            attempts=lease.attempts if failed else 0,
        )  # fmt: skip
        with self._catalog.writing() as connection:
            connection.execute(released)

    def left_over(self) -> list[ProofLease]:
        """The claims of workers that fell silent: their scratch is to be removed, then they are released."""
        silent = or_(proof.c.lease_until < db_now(), and_(proof.c.lease_until.is_(None), proof.c.scratch != ""))
        table = proof.c
        query = select(table.operation, table.version, table.lease_number, table.scratch, table.attempts).where(silent)
        with self._catalog.reading() as connection:
            return [ProofLease(*row) for row in connection.execute(query)]

    def error_of(self, name: str, version: str) -> str:
        """What the last try failed of; empty if it did not, or there was none."""
        query = select(proof.c.error).where(proof.c.operation == name, proof.c.version == version)
        with self._catalog.reading() as connection:
            return connection.scalar(query) or ""


def _is(lease: ProofLease) -> ColumnElement[bool]:
    return and_(
        proof.c.operation == lease.operation, proof.c.version == lease.version, proof.c.lease_number == lease.number,
        proof.c.scratch == lease.scratch,
    )  # fmt: skip
