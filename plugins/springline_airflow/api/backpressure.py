"""Back-pressure of jobs over HTTP: how full queues are, who throttles whom and why, and under which mode."""

from __future__ import annotations

import logging

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends

from springline.airflow.api import access, schemas
from springline.airflow.api.streams import Found, FoundDep
from springline.spark_jobs.streaming.backpressure.accounting import upstreams_of
from springline.spark_jobs.streaming.backpressure.admission import MODES
from springline.spark_jobs.streaming.backpressure.config import Choice, choice_of, choose
from springline.spark_jobs.streaming.job import running_stages

_log = logging.getLogger(__name__)
_reading = APIRouter(prefix="/streams/{job}/backpressure", dependencies=[Depends(access.reads)])
_changing = APIRouter(prefix="/streams/{job}/backpressure", dependencies=[Depends(access.changes)])


@_reading.get("")
def backpressure(job: FoundDep) -> schemas.BackPressure:
    """Each stage's queue, what it may admit and what it can do, and who throttles whom; none before it ran."""
    return _told(job, choice_of(job.folder, job.job.backpressure))


@_changing.put("")
def set_backpressure(job: FoundDep, body: schemas.BackPressureChoice, user: GetUserDep) -> schemas.BackPressure:
    """Go on under another mode, or with another channel of signals, or both; nothing stops for that."""
    chosen = choose(job.folder, job.job.backpressure, body.mode, body.control, apart=_has_stages_apart(job))
    by = f", signals by {chosen.control}" if _has_stages_apart(job) else ""
    _log.info("%s: %s has set back-pressure %s%s", job.job.name, user.get_name(), chosen.mode, by)
    return _told(job, chosen)


def _has_stages_apart(job: Found) -> bool:
    return any(stage.apart for stage in job.job.stages(1))


def _told(job: Found, choice: Choice) -> schemas.BackPressure:
    seen = job.look()
    stages = running_stages(job.job, 1, job.settings)  # what they are called does not depend on units
    return schemas.BackPressure(
        state=seen.state,
        mode=choice.mode,
        modes=MODES.names,
        baselines=sorted(MODES.baselines),
        control=choice.control if _has_stages_apart(job) else None,
        upstreams=upstreams_of(stages),
        reads={stage.name: stage.topic for stage in stages if not stage.inside},
        results={stage.name: stage.results for stage in stages if stage.results},
        stages=seen.backpressure.get("stages", {}),
    )


router = APIRouter(tags=["streams"])
for part in (_reading, _changing):
    router.include_router(part)
