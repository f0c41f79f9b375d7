"""Why queued generations wait: which transfers are active and how far they are, and which pause after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, not_, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.records import chunks_of, keys_of
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.decisions.persist_status import ClaimState
from springline.persistence.model.dataset import Ref, TransferMethod
from springline.persistence.text.formatting import format_seconds

_MAX_LISTED = 50  # transfers, and pauses, in one report
_MAX_NAMED = 3  # transfers in one sentence


@dataclass(frozen=True, slots=True)
class ActiveTransfer:
    """A generation that `owner` is persisting, under a lease that has not expired.

    `sent_bytes` is the progress of a transfer as data, as last reported. `seconds` have passed since the claim.
    `is_blocking`: its writer waits for it, since it persists before commit.
    """

    ref: Ref
    owner: str
    dag_id: str = ""
    method: TransferMethod = TransferMethod.DATA
    bytes: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    predicted_seconds: float | None = None
    attempts: int = 1
    is_blocking: bool = False


@dataclass(frozen=True, slots=True)
class PausedTransfer:
    """A generation whose last attempt failed, and the seconds until the next one may begin."""

    ref: Ref
    seconds: float
    error: str
    dag_id: str = ""
    bytes: int = 0
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class WaitReport:
    """Age of the oldest claimable generation in seconds (None if there is none), active transfers, and pauses.

    The pause that ends first is the first.
    """

    oldest_wait_seconds: float | None
    transfers: tuple[ActiveTransfer, ...] = ()
    pauses: tuple[PausedTransfer, ...] = ()


def load_wait_report(catalog: Catalog) -> WaitReport:
    """Load the report from the catalog, with at most 50 transfers and 50 pauses."""
    table = generation.c
    claimable = schema.is_waiting & (table.not_before <= db_now())
    oldest = select(db_now() - func.min(table.committed_at)).where(claimable)
    left = table.not_before - db_now()
    paused = (
        select(table.path, table.generation, left, table.error, table.dag_id, table.bytes, table.attempts)
        .where(schema.is_waiting, left > 0)
        .order_by(table.not_before, table.id)
        .limit(_MAX_LISTED)
    )
    transfers = load_active_transfers(catalog)
    with catalog.read_transaction() as connection:
        waited = connection.scalar(oldest)
        pauses = tuple(
            PausedTransfer(Ref(path, number), max(float(seconds), 0.0), error, dag_id, size, attempts)
            for path, number, seconds, error, dag_id, size, attempts in connection.execute(paused)
        )
    return WaitReport(None if waited is None else max(float(waited), 0.0), transfers, pauses)


def load_active_transfers(catalog: Catalog) -> tuple[ActiveTransfer, ...]:
    """Load the transfers under way, the oldest first, at most 50."""
    table = generation.c
    active = (
        select(
            table.path, table.generation, table.lease_owner, table.dag_id, table.method, table.bytes, table.sent_bytes,
            db_now() - table.claimed_at, table.predicted_seconds, table.attempts, not_(schema.is_committed),
        )
        .where(table.persist_requested, schema.is_copying, table.lease_until > db_now())
        .order_by(table.claimed_at, table.id)
        .limit(_MAX_LISTED)
    )  # fmt: skip
    with catalog.read_transaction() as connection:
        return tuple(
            ActiveTransfer(
                Ref(path, number), owner, dag_id, TransferMethod(method), size, min(sent, size),
                max(float(seconds), 0.0), predicted, attempts, bool(is_blocking),
            )
            for path, number, owner, dag_id, method, size, sent, seconds, predicted, attempts, is_blocking
            in connection.execute(active)
        )  # fmt: skip


def load_claim_states(catalog: Catalog, refs: Sequence[Ref]) -> Mapping[Ref, ClaimState]:
    """Return what the queue knows of each of `refs`."""
    table = generation.c
    columns = (
        table.path, table.generation, table.lease_owner, table.lease_until < db_now(), table.not_before - db_now(),
        table.sent_bytes, db_now() - table.claimed_at,
    )  # fmt: skip
    states = {}
    with catalog.read_transaction() as connection:
        for part in chunks_of(keys_of(connection, refs)):
            for path, number, owner, is_expired, pause, sent, seconds in connection.execute(
                select(*columns).where(table.id.in_(part))
            ):
                states[Ref(path, number)] = ClaimState(
                    owner, bool(is_expired), max(float(pause), 0.0), sent, max(float(seconds or 0.0), 0.0)
                )
    return states


def explain_waits(waits: WaitReport, explain_unclaimed: Callable[[], str]) -> str:
    """Explain in words why a generation waits; empty if none does.

    `explain_unclaimed` returns why no worker claims what is claimable.
    """
    if waits.transfers:
        named = "; ".join(f"{each.owner} is persisting {each.ref}" for each in waits.transfers[:_MAX_NAMED])
        more = len(waits.transfers) - _MAX_NAMED
        return f"{named}; and {more} more" if more > 0 else named
    if waits.oldest_wait_seconds is not None:
        return explain_unclaimed()
    if waits.pauses:
        pause = waits.pauses[0]
        return (
            f"the last attempt to persist {pause.ref} failed, the next one "
            f"starts in {format_seconds(pause.seconds)}: {pause.error}"
        )
    return ""
