"""The ids of the platform's DAGs, without the imports that the DAGs need."""

from __future__ import annotations


def dag_of(job: str) -> str:
    """Return the id of the DAG that supervises a job."""
    return f"stream_{job}"
