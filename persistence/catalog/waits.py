"""Why what wants persisting waits: who is at work on what, or what is in the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.model.dataset import Ref
from springline.persistence.text.formatting import say_seconds


@dataclass(frozen=True, slots=True)
class Transfer:
    """A generation that `owner` is persisting, under a lease that has not run out."""

    ref: Ref
    owner: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A generation whose last try failed, and in how many seconds the next one may begin."""

    ref: Ref
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the oldest of what is claimable has waited in seconds (None: nothing is), what is sent, what pauses."""

    oldest: float | None
    transfers: tuple[Transfer, ...]
    pause: Pause | None


def waits_of(catalog: Catalog) -> Waits:
    """What the catalog knows of it now: of transfers a few, of pauses the one that ends first."""
    known = (generation.c.path, generation.c.generation, generation.c.lease_owner, generation.c.error)
    claimable = schema.waiting & (generation.c.not_before <= db_now())
    oldest = select(db_now() - func.min(generation.c.committed_at)).where(claimable)
    sent = select(*known).where(generation.c.wanted, schema.copying, generation.c.lease_until > db_now()).limit(3)
    left = generation.c.not_before - db_now()
    pauses = select(*known, left).where(schema.waiting, left > 0).order_by(generation.c.not_before).limit(1)
    with catalog.reading() as connection:
        waited = connection.scalar(oldest)
        transfers = tuple(Transfer(Ref(row[0], row[1]), row[2]) for row in connection.execute(sent))
        first = connection.execute(pauses).one_or_none()
    pause = Pause(Ref(first[0], first[1]), max(float(first[4]), 0.0), first[3]) if first else None
    return Waits(None if waited is None else max(float(waited), 0.0), transfers, pause)


def say_waits(waits: Waits, none_claims: Callable[[], str]) -> str:
    """Why something waits, in words; empty where nothing does.

    `none_claims` says why nobody takes what can be claimed.
    """
    if waits.transfers:
        return "; ".join(f"{each.owner} is persisting {each.ref}" for each in waits.transfers)
    if waits.oldest is not None:
        return none_claims()
    if waits.pause:
        again = say_seconds(waits.pause.seconds)
        return f"the last try of {waits.pause.ref} failed, the next one may begin in {again}: {waits.pause.error}"
    return ""
