"""The DAG run to which a dataset belongs, as the catalog names it."""

from __future__ import annotations

from typing import Any

from springline.persistence.model.dataset import Origin

_CLEARING_MARK = "#"  # Airflow allows no such character in a run's id
_MAX_CLEARINGS = 100  # most clearings of a DAG run that are searched


def origin_of(dag_run: Any, task_id: str = "") -> Origin:
    """Return the origin of what a task of this DAG run writes.

    A cleared run, such as a backfill of a day that ran before, keeps its id but recomputes everything: it must not
    adopt its earlier outputs. So the number of clearings is part of the name: `backfill__…#1`.
    """
    clearings = dag_run.clear_number or 0
    return Origin(
        dag_run.dag_id, f"{dag_run.run_id}{_CLEARING_MARK}{clearings}" if clearings else dag_run.run_id, task_id
    )


def names_of(run_id: str) -> tuple[str, ...]:
    """Return the names of a DAG run in the catalog, given its id in Airflow: that of its first run, then of clearings.

    A name that already contains the number of clearings, as the catalog reports it, means only that one.
    """
    if _CLEARING_MARK in run_id:
        return (run_id,)
    return (run_id, *(f"{run_id}{_CLEARING_MARK}{clearings}" for clearings in range(1, _MAX_CLEARINGS + 1)))
