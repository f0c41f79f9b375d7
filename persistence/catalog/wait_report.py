"""Why queued generations wait: which transfers are active, and which pause after a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.model.dataset import Ref
from springline.persistence.text.formatting import format_seconds


@dataclass(frozen=True, slots=True)
class ActiveTransfer:
    """A generation that `owner` is persisting, under a lease that has not expired."""

    ref: Ref
    owner: str


@dataclass(frozen=True, slots=True)
class PausedTransfer:
    """A generation whose last try failed, and the seconds until the next one may begin."""

    ref: Ref
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class WaitReport:
    """Age of the oldest claimable generation in seconds (None if there is none), active transfers, and a pause."""

    oldest_wait_seconds: float | None
    transfers: tuple[ActiveTransfer, ...]
    pause: PausedTransfer | None


def load_wait_report(catalog: Catalog) -> WaitReport:
    """Load the report from the catalog: up to three transfers, and the pause that ends first."""
    columns = (generation.c.path, generation.c.generation, generation.c.lease_owner, generation.c.error)
    claimable = schema.is_waiting & (generation.c.not_before <= db_now())
    oldest = select(db_now() - func.min(generation.c.committed_at)).where(claimable)
    sent = (
        select(*columns)
        .where(generation.c.persist_requested, schema.is_copying, generation.c.lease_until > db_now())
        .limit(3)
    )
    left = generation.c.not_before - db_now()
    pauses = select(*columns, left).where(schema.is_waiting, left > 0).order_by(generation.c.not_before).limit(1)
    with catalog.read_transaction() as connection:
        waited = connection.scalar(oldest)
        transfers = tuple(ActiveTransfer(Ref(row[0], row[1]), row[2]) for row in connection.execute(sent))
        first = connection.execute(pauses).one_or_none()
    pause = PausedTransfer(Ref(first[0], first[1]), max(float(first[4]), 0.0), first[3]) if first else None
    return WaitReport(None if waited is None else max(float(waited), 0.0), transfers, pause)


def explain_waits(waits: WaitReport, explain_unclaimed: Callable[[], str]) -> str:
    """Explain in words why a generation waits; empty if none does.

    `explain_unclaimed` returns why no worker claims what is claimable.
    """
    if waits.transfers:
        return "; ".join(f"{each.owner} is persisting {each.ref}" for each in waits.transfers)
    if waits.oldest_wait_seconds is not None:
        return explain_unclaimed()
    if waits.pause:
        retry_delay = format_seconds(waits.pause.seconds)
        return (
            f"the last attempt to persist {waits.pause.ref} failed, the next one "
            f"starts in {retry_delay}: {waits.pause.error}"
        )
    return ""
