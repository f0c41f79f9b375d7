"""The jobs that commands name, and what the commands open: Kafka, the platform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.kafka.probe import require_answer
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import Queryable, as_queryable


@contextmanager
def opened_log() -> Iterator[Kafka]:
    """Open the Kafka cluster of the settings; raises `LogUnavailableError` within seconds if it does not answer."""
    cluster = StreamSettings().cluster
    require_answer(cluster)
    with closing(Kafka(cluster)) as log:
        yield log


@contextmanager
def opened_platform(actor: str = "") -> Iterator[Platform]:
    """Open the platform of the settings, whose operations are not run."""
    with closing(open_platform(Settings(), runner=NoRunner(), actor=actor)) as platform:
        yield platform


def job_named(name: str) -> tuple[Job, JobFolder]:
    """Return a declared job and its folder; raises `UnknownJobError`."""
    settings = StreamSettings()
    return read_job(settings.declarations, name), settings.folder(name)


def queryable_job_named(name: str) -> tuple[Queryable, JobFolder]:
    """Return a job with queries, and its folder; raises `UnknownJobError`."""
    job, folder = job_named(name)
    return as_queryable(job), folder
