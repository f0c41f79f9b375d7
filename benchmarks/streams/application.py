"""A job's application as a process of its own, beside the benchmark that loads it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.streams.broker import Place
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.application.supervision import launch
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka


@contextmanager
def running(where: Place, job: str, declared: str, units: int) -> Iterator[Path]:
    """The application of a job while inside; it reads a topic of its own name. Gives the folder of its states."""
    home, state = where.home, where.folder / "state"
    (home / "streams.toml").write_text(declared)
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({job: units})
    variables = {
        "SPRINGLINE_STREAMS_FILE": str(home / "streams.toml"),
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": where.kafka,
        "SPRINGLINE_STREAM_STATE_DIR": str(state),
    }
    folder = JobFolder(home / "streams" / job)
    process = launch(job, folder, environment=os.environ | variables)
    try:
        while not read_status(job, folder, time.time()).is_ready:
            if process.poll() is not None:
                raise RuntimeError(folder.log_file.read_text()[-2000:])
            time.sleep(0.2)
        yield state / job
    finally:
        folder.request_stop()
        process.wait(60)
