"""Bringing a dataset back over HTTP: told at once what it takes, and done by a DAG run, since it may take Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Request

from springline.airflow.api import dag_runs
from springline.airflow.api.access import ReadingDep
from springline.airflow.api.datasets import Asked, PlatformDep
from springline.airflow.lineage.access_filter import veiled
from springline.airflow.operators.recover import DAG_ID
from springline.persistence.actions import decide_return
from springline.persistence.errors import TransitionError
from springline.persistence.explain import find

router = APIRouter(tags=["datasets"])


@dataclass(frozen=True, slots=True)
class Recovering:
    """What the wish to have a dataset back came to; `done`: the DAG run is started, unless it was a dry run."""

    path: str
    generation: int
    wish: Literal["recover"]
    allowed: bool
    done: bool
    words: str
    dag_id: str = ""
    run_id: str = ""


@router.post("/datasets/{path:path}/recover")
def recover(
    path: str, asked: Asked, reading: ReadingDep, platform: PlatformDep, session: SessionDep, request: Request
) -> Recovering:
    """Bring a dataset back to the cache, for those who may change its DAG and trigger the DAG `recover`."""
    catalog = platform.catalog
    chosen = find(platform, path, asked.generation)
    reading.require(chosen)
    reading.require_change(chosen)
    reading.require_trigger(DAG_ID)
    true = catalog.lineage_around([chosen.ref], down=False)
    decision = decide_return(chosen.ref, veiled(true, reading.may), catalog.costs(true))
    against = "" if decision.allowed else decision.words
    against = against or dag_runs.why_none_would_run(DAG_ID, session)
    number = chosen.ref.generation
    if asked.dry_run:
        return Recovering(path, number, "recover", not against, False, against or decision.words)
    if against:
        raise TransitionError(against)
    who = reading.user.get_name()
    conf = {"path": path, "generation": number, "asked_by": who}
    run_id = dag_runs.start(DAG_ID, conf, who, session, by_page="referer" in request.headers)
    catalog.acting_as(who).amend(chosen.ref, event="recovery asked for", why=f"the DAG run {run_id} does it")
    return Recovering(path, number, "recover", True, True, decision.words, DAG_ID, run_id)
