"""Counts of the copies that cannot be verified while the under-store does not respond."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, not_, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.schema import generation
from springline.persistence.text.formatting import format_bytes, format_count


@dataclass(frozen=True, slots=True)
class UnverifiedCopies:
    """Committed generations with a copy that cannot be verified; `sole_copies`: those that have no other copy."""

    datasets: int
    bytes: int
    sole_copies: int
    sole_copy_bytes: int


def count_unverified_copies(connection: Connection) -> UnverifiedCopies:
    """Count them in the catalog, within one transaction."""
    is_unverified = and_(schema.is_persisted, schema.is_committed)
    summed = select(func.count(), func.coalesce(func.sum(generation.c.bytes), 0))
    datasets, size = connection.execute(summed.where(is_unverified)).one()
    sole_copies, sole_copy_bytes = connection.execute(summed.where(is_unverified, not_(schema.is_cached))).one()
    return UnverifiedCopies(int(datasets), int(size), int(sole_copies), int(sole_copy_bytes))


def describe_unverified_copies(copies: UnverifiedCopies) -> str:
    """Describe unverified copies in one sentence."""
    total = f"{format_count(copies.datasets, 'dataset')} ({format_bytes(copies.bytes)})"
    if not copies.sole_copies:
        return f"According to the catalog it contains {total}; all of that is also in the cache."
    sole = f"{format_count(copies.sole_copies, 'dataset')} ({format_bytes(copies.sole_copy_bytes)})"
    return f"According to the catalog it contains {total}, of which {sole} cannot be read from elsewhere now."
