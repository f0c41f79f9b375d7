"""Pools of the platform's own tasks, so that none of them waits for a slot behind the tasks that make datasets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("springline.pools")


@dataclass(frozen=True, slots=True)
class OwnPool:
    """A pool of Airflow's that the platform makes where it is missing."""

    name: str
    slots: int
    description: str

    @property
    def command(self) -> str:
        """The command that makes it by hand."""
        return f"airflow pools set {self.name} {self.slots} '{self.description}'"


PERSISTER = OwnPool("persister", 1, "The persister of datasets: it waits for no other task")
UPKEEP = OwnPool("upkeep", 2, "What recovers datasets, keeps room and supervises streams")
POOLS = (PERSISTER, UPKEEP)

FIRST: dict[str, Any] = {"priority_weight": 1_000_000, "weight_rule": "absolute"}
"""Arguments of a task that goes before all others, where slots of the executor are scarce."""


def make_missing() -> None:
    """Make those of `POOLS` that Airflow does not have; what is there stays as somebody may have resized it.

    For Airflow's own processes: tasks may not touch its database.
    """
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import IntegrityError

    for pool in POOLS:
        try:
            with create_session(
                scoped=False
            ) as session:  # a session of its own, whatever this thread is in the midst of
                if session.scalar(select(Pool.id).where(Pool.pool == pool.name)) is None:
                    session.add(
                        Pool(pool=pool.name, slots=pool.slots, description=pool.description, include_deferred=False)
                    )
                    logger.info("made the pool %s of %d slots", pool.name, pool.slots)
        except IntegrityError:
            continue  # another process of Airflow was first
