"""Who may do what: whoever may read or change a job's DAG, says Airflow's auth manager, may do so with the job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import HTTPException, status

from springline_airflow.streams import dag_of

Method = Literal["GET", "PUT"]


def may(user: BaseUser, method: Method, job: str) -> bool:
    """Whether a user may read (GET) or change (PUT) a job, declared or not."""
    dag_id = dag_of(job)
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(method=method, details=details, user=user)


def readable(user: BaseUser, jobs: Iterable[str]) -> list[str]:
    """Those jobs that a user may read."""
    return [job for job in jobs if may(user, "GET", job)]


def reads(job: str, user: GetUserDep) -> None:
    """Lets those through who may read the job that the path names."""
    _require("GET", job, user)


def changes(job: str, user: GetUserDep) -> None:
    """Lets those through who may change the job that the path names."""
    _require("PUT", job, user)


def _require(method: Method, job: str, user: BaseUser) -> None:
    if not may(user, method, job):
        what = "read" if method == "GET" else "change"
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"you may not {what} the DAG {dag_of(job)}")
