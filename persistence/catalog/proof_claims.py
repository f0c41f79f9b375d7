"""Claims on proofs: one worker per operation, under a lease that names the scratch location in the cache."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.lineage_query import load_lineage
from springline.persistence.catalog.records import insert_of
from springline.persistence.catalog.schema import db_now, generation, operation, proof
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.redaction import redact_secrets

_OUTPUTS = 20  # outputs considered per operation: the largest ones and the most expensive ones, this many of each
_MIN_PAUSE_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class ProofLease:
    """A worker's claim on the proof of an operation; `number` increases with every claim.

    `scratch` is its location in the cache, `attempts` the number of tries since the last that did not fail.
    """

    operation: str
    version: str
    number: int
    scratch: str
    attempts: int


class ProofClaims:
    """Claims with leases, as for transfers: a worker that does not renew for `lease_seconds` loses its claim."""

    def __init__(self, catalog: Catalog, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._catalog = catalog

    def load_candidates(self, only: Collection[tuple[str, str]] | None = None) -> Lineage:
        """Load the largest and most expensive outputs of operations that are only declared, with their sources.

        `only`: of the operations with these names and versions.
        """
        declared = and_(
            operation.c.idempotent, operation.c.runnable, ~operation.c.nondeterministic, operation.c.repeats == 0
        )  # fmt: skip
        keys: dict[int, None] = {}
        with self._catalog.read_transaction() as connection:
            for name, version in connection.execute(select(operation.c.name, operation.c.version).where(declared)):
                if only is not None and (name, version) not in only:
                    continue
                is_output = and_(
                    generation.c.operation == name, generation.c.version == version, generation.c.digest != ""
                )
                outputs = select(generation.c.id).where(is_output, schema.is_committed).limit(_OUTPUTS)
                for size in (generation.c.bytes, func.coalesce(generation.c.compute_seconds, 0.0)):
                    keys |= dict.fromkeys(connection.scalars(outputs.order_by(size.desc())))
            return load_lineage(connection, list(keys), down=False)

    def claim(self, name: str, version: str, owner: str, scratch: str) -> ProofLease | None:
        """Claim the proof of an operation; returns None if another worker has it, or it pauses after a failure."""
        is_free = and_(proof.c.lease_until.is_(None), proof.c.scratch == "", proof.c.not_before <= db_now())
        with self._catalog.write_transaction() as connection:
            fresh = insert_of(connection, proof).values(operation=name, version=version)
            connection.execute(fresh.on_conflict_do_nothing())
            mine = and_(proof.c.operation == name, proof.c.version == version)
            claimed = update(proof).where(mine, is_free).values(
                lease_owner=owner, lease_number=proof.c.lease_number + 1, lease_until=db_now() + self.lease_seconds,
                attempts=proof.c.attempts + 1, scratch=scratch,
            )  # fmt: skip
            row = connection.execute(claimed.returning(proof.c.lease_number, proof.c.attempts)).first()
        return None if row is None else ProofLease(name, version, row.lease_number, scratch, row.attempts)

    def renew(self, lease: ProofLease) -> bool:
        """Extend a lease; returns False if it was lost."""
        with self._catalog.write_transaction() as connection:
            renewed = update(proof).where(_matches_lease(lease)).values(lease_until=db_now() + self.lease_seconds)
            return connection.execute(renewed).rowcount == 1

    def release(self, lease: ProofLease, error: str = "", *, failed: bool = False) -> None:
        """Release a claim after its scratch copy was removed; after a failure with a pause of up to a day."""
        pause = min(_MIN_PAUSE_SECONDS * 2 ** min(lease.attempts - 1, 20), _MAX_PAUSE_SECONDS) if failed else 0.0
        released = update(proof).where(_matches_lease(lease)).values(
            lease_until=None, scratch="", error=redact_secrets(error), not_before=db_now() + pause,
            attempts=lease.attempts if failed else 0,
        )  # fmt: skip
        with self._catalog.write_transaction() as connection:
            connection.execute(released)

    def expired_leases(self) -> list[ProofLease]:
        """Return the claims of dead workers: remove their scratch copies, then release them."""
        silent = or_(proof.c.lease_until < db_now(), and_(proof.c.lease_until.is_(None), proof.c.scratch != ""))
        table = proof.c
        query = select(table.operation, table.version, table.lease_number, table.scratch, table.attempts).where(silent)
        with self._catalog.read_transaction() as connection:
            return [ProofLease(*row) for row in connection.execute(query)]

    def error_of(self, name: str, version: str) -> str:
        """Return the error of the last try; empty if it succeeded, or there was none."""
        query = select(proof.c.error).where(proof.c.operation == name, proof.c.version == version)
        with self._catalog.read_transaction() as connection:
            return connection.scalar(query) or ""


def _matches_lease(lease: ProofLease) -> ColumnElement[bool]:
    return and_(
        proof.c.operation == lease.operation, proof.c.version == lease.version, proof.c.lease_number == lease.number,
        proof.c.scratch == lease.scratch,
    )  # fmt: skip
