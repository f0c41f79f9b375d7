"""A Kafka of a benchmark's own, and a folder in memory beside it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from springline.persistence.private_files import default_cache_folder
from springline.services.packages.java import find_java
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.settings import StreamSettings


@dataclass(frozen=True)
class Place:
    """Where the benchmark's servers and files are."""

    settings: ServiceSettings
    folder: Path

    @property
    def home(self) -> Path:
        """The home of the jobs' platform, to which they persist their states."""
        return self.folder / "home"

    @property
    def kafka(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.settings.kafka_port}"

    def stream_settings(self, job: str) -> StreamSettings:
        """How a job runs here, its states in memory."""
        return StreamSettings(
            home=self.folder / job,
            kafka_bootstrap_servers=self.kafka,
            stream_state_dir=self.folder / "state",
            stream_master="local[8,4]",
        )

    def forget(self, job: str) -> None:
        """Delete all topics and states of a job that has ended, the persisted ones too: they are held in memory."""
        admin = AdminClient(Cluster(self.kafka).config())
        own = [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(f"{job}.")]
        for deletion in admin.delete_topics(own).values() if own else ():
            deletion.result()
        for folder in (self.folder / job, self.folder / "state" / job, self.home, default_cache_folder(self.home)):
            shutil.rmtree(folder, ignore_errors=True)
        self.home.mkdir()


@contextmanager
def place() -> Iterator[Place]:
    """A broker of the benchmark's own, its log in memory too, and a folder in memory; both go afterwards.

    How fast a disk is, and what of a log the machine still has in memory, would be measured else.
    """
    with tempfile.TemporaryDirectory(prefix="springline-bench-", dir="/dev/shm") as home, \
         tempfile.TemporaryDirectory(prefix="springline-bench-", dir="/dev/shm") as folder:  # fmt: skip
        settings = scratch_settings(Path(home))
        where = Place(settings, Path(folder))
        where.home.mkdir()
        os.environ["SPRINGLINE_HOME"] = str(where.home)
        os.environ.update(find_java(os.environ, Path(home)).environment(os.environ.get("PATH", "")))
        supervisor = Supervisor(Path(home), say=lambda text: print(text, file=sys.stderr, flush=True))
        supervisor.up(make_servers(["kafka"], settings), 120)
        try:
            yield where
        finally:
            supervisor.down("kafka", 5)
            shutil.rmtree(default_cache_folder(where.home), ignore_errors=True)
