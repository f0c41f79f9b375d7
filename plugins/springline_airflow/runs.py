"""Which DAG run a dataset belongs to, as the catalog names it."""

from __future__ import annotations

from typing import Any

from springline.persistence.model.dataset import Origin

_AGAIN = "#"  # Airflow allows no such letter in a run's id
_MOST_CLEARED = 100  # times that a DAG run is looked for


def origin_of(dag_run: Any, task_id: str = "") -> Origin:
    """The origin of what a task of this DAG run makes.

    A run that is cleared, as a backfill of a day that ran before does, keeps its id but makes everything anew:
    it must not adopt what it made before. So the number of clearings is part of the name: `backfill__…#1`.
    """
    again = dag_run.clear_number or 0
    return Origin(dag_run.dag_id, f"{dag_run.run_id}{_AGAIN}{again}" if again else dag_run.run_id, task_id)


def names_of(run_id: str) -> tuple[str, ...]:
    """What the catalog may call a DAG run that Airflow knows under this id: as it ran first, then as it was cleared.

    A name that holds the number of clearings already, as the catalog told it, means that one alone.
    """
    if _AGAIN in run_id:
        return (run_id,)
    return (run_id, *(f"{run_id}{_AGAIN}{again}" for again in range(1, _MOST_CLEARED + 1)))
