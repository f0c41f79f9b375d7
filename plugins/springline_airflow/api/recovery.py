"""Recovery of a dataset over HTTP: the plan is returned at once; a DAG run carries it out, since it may need Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Request

from springline.airflow.api import dag_runs
from springline.airflow.api.access import ReadAccessDep
from springline.airflow.api.datasets import ActionRequest, PlatformDep
from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.operators.recover import DAG_ID
from springline.persistence.actions import decide_recovery
from springline.persistence.errors import TransitionError
from springline.persistence.explain import find_dataset

router = APIRouter(tags=["datasets"])


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """Result of a request to recover a dataset; `executed`: the DAG run was started (never in a dry run)."""

    path: str
    generation: int
    action: Literal["recover"]
    allowed: bool
    executed: bool
    message: str
    dag_id: str = ""
    run_id: str = ""


@router.post("/datasets/{path:path}/recover")
def recover(
    path: str,
    body: ActionRequest,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    session: SessionDep,
    request: Request,
) -> RecoveryResult:
    """Recover a dataset into the cache; requires permission to change its DAG and to trigger the DAG `recover`."""
    catalog = platform.catalog
    target_dataset = find_dataset(platform, path, body.generation)
    read_access.require_read(target_dataset)
    read_access.require_change(target_dataset)
    read_access.require_trigger(DAG_ID)
    full_lineage = catalog.lineage_around([target_dataset.ref], down=False)
    decision = decide_recovery(
        target_dataset.ref, redact_hidden(full_lineage, read_access.may_read), catalog.load_cost_model(full_lineage)
    )
    refusal = "" if decision.allowed else decision.message
    refusal = refusal or dag_runs.not_runnable_reason(DAG_ID, session)
    number = target_dataset.ref.generation
    if body.dry_run:
        return RecoveryResult(path, number, "recover", not refusal, False, refusal or decision.message)
    if refusal:
        raise TransitionError(refusal)
    user_name = read_access.user.get_name()
    conf = {"datasets": [str(target_dataset.ref)], "requested_by": user_name}
    run_id = dag_runs.start(DAG_ID, conf, user_name, session, by_page="referer" in request.headers)
    catalog.acting_as(user_name).amend(target_dataset.ref, event="recovery_requested", reason=f"DAG run {run_id}")
    return RecoveryResult(path, number, "recover", True, True, decision.message, DAG_ID, run_id)
