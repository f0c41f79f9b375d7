"""Which generations are to go into tables, and the leases by which workers put them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import insert_of, key_of
from springline.persistence.catalog.schema import db_now, generation, table_write
from springline.persistence.model.dataset import Ref
from springline.persistence.text.redaction import redact_secrets

_PAGE_SIZE = 100
_PAUSE_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 600.0
_MAX_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class TableLease:
    """A worker's claim on putting a generation into a table; `number` increases with every claim on it."""

    ref: Ref
    identity: int
    table: str
    number: int
    attempts: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """How many datasets are in a table in their newest version, how many are still to go there, and the last error."""

    written: int
    pending: int
    error: str


class TableClaims:
    """Claims with leases, as for transfers: a worker that does not renew for `lease_seconds` loses its claim.

    A generation is pending for a table if it is the newest of its path, persisted, and not known to be there. Tables
    are named by their URIs as in the setting, and their paths given by a pattern of SQL and a condition.
    """

    def __init__(self, catalog: Catalog, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._catalog = catalog

    def list_pending(self, table: str, like: str, covers: Callable[[str], bool]) -> Iterator[Ref]:
        """Yield the generations that may be put into a table now, in the order in which they were persisted."""
        is_free = or_(
            table_write.c.generation_id.is_(None),
            and_(
                or_(table_write.c.lease_until.is_(None), table_write.c.lease_until < db_now()),
                table_write.c.not_before <= db_now(),
            ),
        )
        query = _pending(table, like).where(is_free).order_by(generation.c.persisted_at, generation.c.id)
        offset = 0
        while True:
            with self._catalog.read_transaction() as connection:
                rows = connection.execute(query.limit(_PAGE_SIZE).offset(offset)).all()
            yield from (Ref(row.path, row.generation) for row in rows if covers(row.path))
            if len(rows) < _PAGE_SIZE:
                return
            offset += _PAGE_SIZE

    def status(self, table: str, like: str, covers: Callable[[str], bool]) -> TableStatus:
        """Return how far the datasets of a table are in it."""
        written = (
            select(generation.c.path)
            .join(table_write, table_write.c.generation_id == generation.c.id)
            .where(_is_newest(like), table_write.c.table == table, table_write.c.versions != "")
        )
        with self._catalog.read_transaction() as connection:
            paths = connection.scalars(written).all()
            rows = connection.execute(_pending(table, like).add_columns(table_write.c.error)).all()
        pending = [row for row in rows if covers(row.path)]
        return TableStatus(sum(map(covers, paths)), len(pending), next((row.error for row in pending if row.error), ""))

    def claim(self, ref: Ref, table: str, owner: str) -> TableLease | None:
        """Claim putting a generation into a table; returns None if another worker has it, or it pauses or is there."""
        is_free = and_(
            table_write.c.versions == "",
            or_(table_write.c.lease_until.is_(None), table_write.c.lease_until < db_now()),
            table_write.c.not_before <= db_now(),
        )
        with self._catalog.write_transaction() as connection:
            identity = key_of(connection, ref)
            fresh = insert_of(connection, table_write).values(generation_id=identity, table=table)
            connection.execute(fresh.on_conflict_do_nothing())
            mine = and_(table_write.c.generation_id == identity, table_write.c.table == table)
            claimed = update(table_write).where(mine, is_free).values(
                lease_owner=owner, lease_number=table_write.c.lease_number + 1,
                lease_until=db_now() + self.lease_seconds, attempts=table_write.c.attempts + 1,
            )  # fmt: skip
            row = connection.execute(claimed.returning(table_write.c.lease_number, table_write.c.attempts)).first()
        return None if row is None else TableLease(ref, identity, table, row.lease_number, row.attempts)

    def renew(self, lease: TableLease) -> bool:
        """Extend a lease; returns False if it was lost."""
        return self._update(lease, lease_until=db_now() + self.lease_seconds)

    def complete(self, lease: TableLease, versions: str) -> bool:
        """Record that the tables have the generation in `versions`; returns False if the lease was lost."""
        return self._update(lease, lease_until=None, versions=versions, error="")

    def release(self, lease: TableLease, error: str) -> bool:
        """Release a claim after a failure; it can be claimed again after a pause, doubled for each attempt so far."""
        pause = min(_PAUSE_SECONDS * 2.0 ** min(lease.attempts - 1, _MAX_DOUBLINGS), _MAX_PAUSE_SECONDS)
        return self._update(lease, lease_until=None, error=redact_secrets(error), not_before=db_now() + pause)

    def _update(self, lease: TableLease, **values: object) -> bool:
        mine = and_(
            table_write.c.generation_id == lease.identity, table_write.c.table == lease.table,
            table_write.c.lease_number == lease.number, table_write.c.lease_until.is_not(None),
        )  # fmt: skip
        with self._catalog.write_transaction() as connection:
            return connection.execute(update(table_write).where(mine).values(**values)).rowcount == 1


def _is_newest(like: str) -> ColumnElement[bool]:
    """Whether a generation is the newest of its path, persisted, and its path is like a pattern."""
    return and_(
        schema.is_committed, schema.is_persisted, ~generation.c.superseded, generation.c.path.like(like, escape="\\")
    )


def _pending(table: str, like: str) -> Select[Any]:
    """Return the query for the generations that are not known to be in a table."""
    is_its = and_(table_write.c.generation_id == generation.c.id, table_write.c.table == table)
    return (
        select(generation.c.path, generation.c.generation)
        .outerjoin(table_write, is_its)
        .where(_is_newest(like), func.coalesce(table_write.c.versions, "") == "")
    )
