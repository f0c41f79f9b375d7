"""Access control: Airflow's auth manager decides who may read or change a DAG; what belongs to the DAG follows it.

A job belongs to the DAG that supervises it, a generation of a dataset to the DAG whose run wrote it. Data that no DAG
wrote belongs to all of them: only users who may read every DAG may read it. In responses about one dataset, the
datasets that it was made from are named only to users who may read them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path, status

from springline.airflow.dags.ids import dag_of
from springline.persistence.model.dataset import Dataset

Method = Literal["GET", "PUT"]
JobName = Annotated[str, Path(pattern=r"^[^\x00]{1,200}$")]  # no database accepts a NUL character


def may_access_job(user: BaseUser, method: Method, job: str) -> bool:
    """Whether a user may read (GET) or change (PUT) a job, declared or not."""
    return may_access_dag(user, method, dag_of(job))


def may_access_dag(user: BaseUser, method: Method, dag_id: str) -> bool:
    """Whether a user may read (GET) or change (PUT) a DAG; the empty id means all DAGs."""
    details = _details(dag_id) if dag_id else None
    return get_auth_manager().is_authorized_dag(method=method, details=details, user=user)


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Whether a user may start DAG runs of a DAG."""
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=_details(dag_id), user=user
    )


def _details(dag_id: str) -> DagDetails:
    return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))


class ReadAccess:
    """The read permissions of a user on datasets, for the duration of one request; each DAG is checked once."""

    def __init__(self, user: GetUserDep) -> None:
        self.user = user
        self._allowed_by_dag: dict[str, bool] = {}

    def may_read(self, dataset: Dataset) -> bool:
        """Whether the user may read a generation."""
        return self.may_read_dag(dataset.origin.dag_id)

    def may_read_dag(self, dag_id: str) -> bool:
        """Whether the user may read what a DAG wrote."""
        if dag_id not in self._allowed_by_dag:
            self._allowed_by_dag[dag_id] = may_access_dag(self.user, "GET", dag_id)
        return self._allowed_by_dag[dag_id]

    def readable_dags(self, dag_ids: Iterable[str]) -> list[str]:
        """Return those DAGs whose output the user may read; the empty id means data that no DAG wrote."""
        return [dag_id for dag_id in dag_ids if self.may_read_dag(dag_id)]

    def require_read(self, dataset: Dataset) -> None:
        """Raise `HTTPException` (403) if the user may not read a generation."""
        if not self.may_read(dataset):
            _forbid_if(_refusal("read", dataset.origin.dag_id))

    def change_refusal(self, dataset: Dataset) -> str:
        """Return why the user may not change a generation; empty if it may be changed."""
        return self.dag_change_refusal(dataset.origin.dag_id)

    def dag_change_refusal(self, dag_id: str) -> str:
        """Return why the user may not change what a DAG wrote; empty if it may be changed."""
        return "" if may_access_dag(self.user, "PUT", dag_id) else _refusal("change", dag_id)

    def trigger_refusal(self, dag_id: str) -> str:
        """Return why the user may not start DAG runs of a DAG; empty if they may be started."""
        return "" if may_trigger(self.user, dag_id) else f"you may not trigger the DAG {dag_id}"

    def require_change(self, dataset: Dataset) -> None:
        """Raise `HTTPException` (403) if the user may not change a generation."""
        _forbid_if(self.change_refusal(dataset))

    def require_trigger(self, dag_id: str) -> None:
        """Raise `HTTPException` (403) if the user may not start DAG runs of a DAG."""
        _forbid_if(self.trigger_refusal(dag_id))


def _refusal(what: str, dag_id: str) -> str:
    of = f"the DAG {dag_id}" if dag_id else "all DAGs, since no DAG made this dataset"
    return f"you may not {what} {of}"


def _forbid_if(refusal: str) -> None:
    if refusal:
        raise HTTPException(status.HTTP_403_FORBIDDEN, refusal)


ReadAccessDep = Annotated[ReadAccess, Depends()]


def readable_jobs(user: BaseUser, jobs: Iterable[str]) -> list[str]:
    """Return those jobs that a user may read."""
    return [job for job in jobs if may_access_job(user, "GET", job)]


def require_job_read(job: JobName, user: GetUserDep) -> None:
    """Raise `HTTPException` (403) if the user may not read the job that the path names."""
    _require_job_access("GET", job, user)


def require_job_change(job: JobName, user: GetUserDep) -> None:
    """Raise `HTTPException` (403) if the user may not change the job that the path names."""
    _require_job_access("PUT", job, user)


def _require_job_access(method: Method, job: str, user: BaseUser) -> None:
    if not may_access_job(user, method, job):
        what = "read" if method == "GET" else "change"
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"you may not {what} the DAG {dag_of(job)}")
