"""The ids of the platform's DAGs, which need nothing of what the DAGs need."""

from __future__ import annotations


def dag_of(job: str) -> str:
    """The id of the DAG that supervises a job."""
    return f"stream_{job}"
