"""State of the DAG `persister` in Airflow: why datasets that could be persisted now are not claimed."""

from __future__ import annotations

from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select
from sqlalchemy.orm import Session

from springline.airflow.api import dag_runs
from springline.airflow.pools import PERSISTER

DAG_ID = "persister"
_STATES = {
    "running": "the task of the DAG persister runs, and has claimed nothing yet",
    "queued": "the task of the DAG persister is queued, and Airflow's executor has not begun it",
    "scheduled": f"the task of the DAG persister waits for a slot of the pool {PERSISTER.name}, or of the executor",
    "deferred": "the DAG persister sleeps: Airflow's triggerer looks every few seconds, and wakes it",
    "up_for_retry": "the task of the DAG persister failed, and is tried again",
}


def no_claim_reason(session: Session) -> str:
    """Return the first obstacle to the persister's run, otherwise the state of its task."""
    if obstacle := dag_runs.not_runnable_reason(DAG_ID, session):
        return obstacle
    if session.scalar(select(Pool.id).where(Pool.pool == PERSISTER.name)) is None:
        return f"Airflow has no pool {PERSISTER.name}: restart its scheduler, or {PERSISTER.command}"
    state_query = select(TaskInstance.state).join(DagRun, TaskInstance.run_id == DagRun.run_id)
    states = session.execute(
        state_query.where(
            TaskInstance.dag_id == DAG_ID, DagRun.dag_id == DAG_ID, DagRun.state.in_(("queued", "running"))
        )
    ).all()
    if not states:
        return "the DAG persister has no run yet: Airflow's scheduler begins one, if it is running"
    state = str(states[0][0] or "")
    return _STATES.get(state, "Airflow's scheduler has not scheduled the task of the DAG persister yet")
