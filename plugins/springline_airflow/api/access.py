"""Who may do what: whoever may read or change a DAG, says Airflow's auth manager, may do so with what belongs to it.

A job belongs to the DAG that supervises it, a generation of a dataset to the DAG whose run made it. What no DAG made
belongs to all of them: only who may read every DAG may read it. In answers on one dataset, others that it was made from
are named only to those who may read them too.
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
JobName = Annotated[str, Path(pattern=r"^[^\x00]{1,200}$")]  # no database takes a zero


def may(user: BaseUser, method: Method, job: str) -> bool:
    """Whether a user may read (GET) or change (PUT) a job, declared or not."""
    return may_dag(user, method, dag_of(job))


def may_dag(user: BaseUser, method: Method, dag_id: str) -> bool:
    """Whether a user may read (GET) or change (PUT) a DAG; the empty id stands for all DAGs."""
    details = _details(dag_id) if dag_id else None
    return get_auth_manager().is_authorized_dag(method=method, details=details, user=user)


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Whether a user may start DAG runs of a DAG."""
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=_details(dag_id), user=user
    )


def _details(dag_id: str) -> DagDetails:
    return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))


class Reading:
    """What a user may read of the datasets, for as long as one request; each DAG is asked about once."""

    def __init__(self, user: GetUserDep) -> None:
        self.user = user
        self._known: dict[str, bool] = {}

    def may(self, dataset: Dataset) -> bool:
        """Whether the user may read a generation."""
        return self.may_dag(dataset.origin.dag_id)

    def may_dag(self, dag_id: str) -> bool:
        """Whether the user may read what a DAG made."""
        if dag_id not in self._known:
            self._known[dag_id] = may_dag(self.user, "GET", dag_id)
        return self._known[dag_id]

    def dags(self, dag_ids: Iterable[str]) -> list[str]:
        """Those DAGs of which the user may read what they made; the empty one stands for what no DAG made."""
        return [dag_id for dag_id in dag_ids if self.may_dag(dag_id)]

    def require(self, dataset: Dataset) -> None:
        """Let nobody pass who may not read a generation."""
        if not self.may(dataset):
            _require_none(_refusal("read", dataset))

    def why_no_change(self, dataset: Dataset) -> str:
        """Why the user may not change a generation; empty if it may be changed."""
        return "" if may_dag(self.user, "PUT", dataset.origin.dag_id) else _refusal("change", dataset)

    def why_no_trigger(self, dag_id: str) -> str:
        """Why the user may not start DAG runs of a DAG; empty if they may be started."""
        return "" if may_trigger(self.user, dag_id) else f"you may not trigger the DAG {dag_id}"

    def require_change(self, dataset: Dataset) -> None:
        """Let nobody pass who may not change a generation."""
        _require_none(self.why_no_change(dataset))

    def require_trigger(self, dag_id: str) -> None:
        """Let nobody pass who may not start DAG runs of a DAG."""
        _require_none(self.why_no_trigger(dag_id))


def _refusal(what: str, dataset: Dataset) -> str:
    dag_id = dataset.origin.dag_id
    of = f"the DAG {dag_id}" if dag_id else "every DAG, and none made this dataset"
    return f"you may not {what} {of}"


def _require_none(refusal: str) -> None:
    if refusal:
        raise HTTPException(status.HTTP_403_FORBIDDEN, refusal)


ReadingDep = Annotated[Reading, Depends()]


def readable(user: BaseUser, jobs: Iterable[str]) -> list[str]:
    """Those jobs that a user may read."""
    return [job for job in jobs if may(user, "GET", job)]


def reads(job: JobName, user: GetUserDep) -> None:
    """Lets those through who may read the job that the path names."""
    _require("GET", job, user)


def changes(job: JobName, user: GetUserDep) -> None:
    """Lets those through who may change the job that the path names."""
    _require("PUT", job, user)


def _require(method: Method, job: str, user: BaseUser) -> None:
    if not may(user, method, job):
        what = "read" if method == "GET" else "change"
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"you may not {what} the DAG {dag_of(job)}")
