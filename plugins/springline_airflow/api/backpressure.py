"""Back-pressure of jobs over HTTP: queue sizes, which stage throttles which and why, and the mode in use."""

from __future__ import annotations

import logging

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends

from springline.airflow.api import access, schemas
from springline.airflow.api.streams import JobDep, JobHandle
from springline.spark_jobs.streaming.application.health import bottleneck_of
from springline.spark_jobs.streaming.backpressure.accounting import upstreams_of
from springline.spark_jobs.streaming.backpressure.admission import MODES
from springline.spark_jobs.streaming.backpressure.config import BackpressureConfig, read_config, update_config
from springline.spark_jobs.streaming.job import make_stages

_log = logging.getLogger(__name__)
_read_router = APIRouter(prefix="/streams/{job}/backpressure", dependencies=[Depends(access.require_job_read)])
_change_router = APIRouter(prefix="/streams/{job}/backpressure", dependencies=[Depends(access.require_job_change)])


@_read_router.get("")
def backpressure(job: JobDep) -> schemas.BackPressure:
    """Return each stage's queue, admission rate and capacity, and its throttles; no stages before the first run."""
    return _backpressure_of(job, read_config(job.folder, job.job.backpressure))


@_change_router.put("")
def set_backpressure(job: JobDep, body: schemas.BackPressureChoice, user: GetUserDep) -> schemas.BackPressure:
    """Change the mode of back-pressure, or the channel of its signals, or both; the job keeps running."""
    config = update_config(
        job.folder, job.job.backpressure, body.mode, body.signal_channel, apart=_has_stages_apart(job)
    )
    by = f", signal channel {config.signal_channel}" if _has_stages_apart(job) else ""
    _log.info("%s: %s has set back-pressure %s%s", job.job.name, user.get_name(), config.mode, by)
    return _backpressure_of(job, config)


def _has_stages_apart(job: JobHandle) -> bool:
    return any(stage.in_second_application for stage in job.job.stages())


def _backpressure_of(job: JobHandle, config: BackpressureConfig) -> schemas.BackPressure:
    job_status = job.read_status()
    pressed = job_status.backpressure.get("stages", {})
    stages = make_stages(job.job, job.settings)
    return schemas.BackPressure(
        state=job_status.state,
        mode=config.mode,
        modes=MODES.names,
        baselines=sorted(MODES.baselines),
        signal_channel=config.signal_channel if _has_stages_apart(job) else None,
        upstreams=upstreams_of(stages),
        reads={stage.name: stage.topic for stage in stages if not stage.reads_own_job},
        results={stage.name: stage.results for stage in stages if stage.results},
        stages={name: schemas.StagePressure.of(stage) for name, stage in pressed.items()},
        bottleneck=bottleneck_of(pressed),
    )


router = APIRouter(tags=["streams"])
for part in (_read_router, _change_router):
    router.include_router(part)
