"""Starts DAG runs from within Airflow's API server, by the function that Airflow's own routes call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.models.dag import DagModel
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy.orm import Session


def not_runnable_reason(dag_id: str, session: Session) -> str:
    """Return why a DAG run that is started now would not run; empty if it would."""
    dag = session.get(DagModel, dag_id)
    if dag is None or dag.is_stale:
        return f"Airflow has not parsed the DAG {dag_id} yet"
    if dag.has_import_errors:
        return f"the DAG {dag_id} cannot be imported; see the import errors on Airflow's home page"
    if dag.is_paused:
        return f"the DAG {dag_id} is paused"
    return ""


def start(dag_id: str, conf: Mapping[str, Any], user_name: str, session: Session, *, by_page: bool) -> str:
    """Start a DAG run on behalf of a user; return its id.

    `by_page`: the user asked by a page, not by the API alone.
    """
    run = trigger_dag(
        dag_id,
        triggered_by=DagRunTriggeredByType.UI if by_page else DagRunTriggeredByType.REST_API,
        triggering_user_name=user_name,
        conf=dict(conf),
        session=session,
    )
    assert run is not None
    run_id = str(run.run_id)
    session.commit()
    return run_id
