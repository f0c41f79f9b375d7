"""What only the catalog says to be in the under-store, while that does not answer."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, not_, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.schema import generation
from springline.persistence.text.formatting import counted, say_bytes


@dataclass(frozen=True, slots=True)
class Belief:
    """Committed generations whose copy cannot be asked for; `alone`: those that are in no other place."""

    datasets: int
    bytes: int
    alone: int
    alone_bytes: int


def belief_from(connection: Connection) -> Belief:
    """What the catalog says in one transaction."""
    below = and_(schema.persisted, schema.committed)
    summed = select(func.count(), func.coalesce(func.sum(generation.c.bytes), 0))
    datasets, size = connection.execute(summed.where(below)).one()
    alone, alone_size = connection.execute(summed.where(below, not_(schema.in_cache))).one()
    return Belief(int(datasets), int(size), int(alone), int(alone_size))


def say_belief(belief: Belief) -> str:
    """A belief in one sentence."""
    held = f"{counted(belief.datasets, 'dataset')} ({say_bytes(belief.bytes)})"
    if not belief.alone:
        return f"Only the catalog says that it holds {held}; all of that is in the cache, too."
    alone = f"{counted(belief.alone, 'dataset')} ({say_bytes(belief.alone_bytes)})"
    return f"Only the catalog says that it holds {held}, of which {alone} can be read nowhere else now."
