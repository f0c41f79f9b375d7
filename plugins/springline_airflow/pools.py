"""Pools for the platform's own tasks, so that they never wait for a slot that dataset tasks occupy."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("springline.pools")


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """An Airflow pool that the platform creates if it is missing."""

    name: str
    slots: int
    description: str

    @property
    def command(self) -> str:
        """Return the command that creates it manually."""
        return f"airflow pools set {self.name} {self.slots} '{self.description}'"


PERSISTER = PoolSpec("persister", 1, "Persister of datasets, so that it never waits for a slot of other tasks")
MAINTENANCE = PoolSpec("maintenance", 2, "Tasks that recover datasets, free the cache and supervise streams")
POOLS = (PERSISTER, MAINTENANCE)

TOP_PRIORITY: dict[str, Any] = {"priority_weight": 1_000_000, "weight_rule": "absolute"}
"""Arguments of a task that goes before all others, where slots of the executor are scarce."""


def create_missing_pools() -> None:
    """Create those of `POOLS` that Airflow does not have; existing ones, which may have been resized, are unchanged.

    For Airflow's own processes: tasks may not access its database.
    """
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import IntegrityError

    for pool in POOLS:
        try:
            with create_session(scoped=False) as session:  # separate from the session of this thread
                if session.scalar(select(Pool.id).where(Pool.pool == pool.name)) is None:
                    session.add(
                        Pool(pool=pool.name, slots=pool.slots, description=pool.description, include_deferred=False)
                    )
                    logger.info("created the pool %s with %d slots", pool.name, pool.slots)
        except IntegrityError:
            continue  # another process of Airflow was first
