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
    "running": "the task of the DAG persister is running, and has not claimed a dataset yet",
    "queued": "the task of the DAG persister is queued; Airflow's executor has not started it yet",
    "scheduled": f"the task of the DAG persister waits for a slot of the pool {PERSISTER.name}, or of the executor",
    "deferred": "the DAG persister is deferred; Airflow's triggerer polls the queue every few seconds and resumes it",
    "up_for_retry": "the task of the DAG persister failed, and will be retried",
}


def no_claim_reason(session: Session) -> str:
    """Return the first obstacle to the persister's run, otherwise the state of its task."""
    if obstacle := dag_runs.not_runnable_reason(DAG_ID, session):
        return obstacle
    if session.scalar(select(Pool.id).where(Pool.pool == PERSISTER.name)) is None:
        return f"Airflow has no pool {PERSISTER.name}: restart its scheduler, or run {PERSISTER.command}"
    state_query = select(TaskInstance.state).join(DagRun, TaskInstance.run_id == DagRun.run_id)
    states = session.execute(
        state_query.where(
            TaskInstance.dag_id == DAG_ID, DagRun.dag_id == DAG_ID, DagRun.state.in_(("queued", "running"))
        )
    ).all()
    if not states:
        return "the DAG persister has no run yet; check that Airflow's scheduler, which starts one, is running"
    state = str(states[0][0] or "")
    return _STATES.get(state, "Airflow's scheduler has not scheduled the task of the DAG persister yet")
