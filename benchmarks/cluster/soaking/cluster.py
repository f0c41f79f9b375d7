"""The cluster profile in a home that goes afterwards; servers that have died are started again, as an init would."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.cluster.soaking.diary import Diary
from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.private_files import default_cache_folder
from springline.persistence.profile import project_folder
from springline.services.airflow_api import AirflowApi
from springline.services.errors import ServiceError
from springline.services.registry import make_servers
from springline.services.server import Server
from springline.services.servers.airflow import USER, password
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.application.supervision import kill_application
from springline.spark_jobs.streaming.job_folder import LOG, JobFolder
from springline.spark_jobs.streaming.settings import StreamSettings

_PATIENCE = 300.0  # seconds for a server to be ready
_NOTICED = 3.0  # seconds until a process that has ended is started again
_POLL_SECONDS = 1.0
_OWN = {
    "SPRINGLINE_PROFILE": "cluster",
    "SPRINGLINE_STREAM_CHECKPOINT_INTERVAL": "15",  # seconds between two savings of states
    "SPRINGLINE_STREAM_TRIGGER_INTERVAL": "0.2",  # seconds between two rounds
    "SPRINGLINE_STREAM_TASKS_PER_STAGE": "1",  # three streams share few cores with all the rest
}


@dataclass(frozen=True)
class SoakCluster:
    """Servers that run, and the ends of them that a soak uses."""

    settings: ServiceSettings
    supervisor: Supervisor
    api: AirflowApi
    platform: Platform
    streams: StreamSettings
    diary: Diary
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def servers(self) -> Sequence[Server]:
        """All of them."""
        return make_servers(self.settings.demo_servers, self.settings)

    def missing(self) -> str:
        """The first server that does not serve, and what is missing; empty if all do."""
        for server in self.servers:
            if not self.supervisor.status(server.name).is_running:
                return f"{server.name} is {self.supervisor.status(server.name).state}"
            if problem := server.readiness_problem():
                return f"{server.name}: {problem}"
        return ""

    def processes(self) -> list[psutil.Process]:
        """All that lives in this home: servers, tasks, streams and what they have started."""
        states = [self.supervisor.status(server.name) for server in self.servers]
        sessions = {pid for state in states for pid in state.processes.values()}
        all_processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                # Airflow writes a title over the environment of some.
                ours = process.environ().get("SPRINGLINE_HOME") == str(self.settings.home)
                if ours or os.getsid(process.pid) in sessions:
                    all_processes.append(process)
        return all_processes

    def keep_up(self) -> None:
        """Start again what has ended of the servers, each in a thread of its own, until it is over."""
        for server in self.servers:
            threading.Thread(target=self._keep_up, args=(server,), daemon=True).start()

    def _keep_up(self, server: Server) -> None:
        while not self.over.wait(_POLL_SECONDS):
            if self.supervisor.status(server.name).is_running:
                continue
            state = self.supervisor.status(server.name).state
            time.sleep(_NOTICED)
            started_at = time.monotonic()
            try:
                self.supervisor.up([server], _PATIENCE)
            except ServiceError as error:  # killed once more meanwhile, or without what it needs
                self.diary.note(f"{server.name} does not come up yet: {str(error).partition(chr(10))[0]}")
            else:
                self.diary.note(
                    f"{server.name} was {state}; serves again, {time.monotonic() - started_at:.0f} s from start"
                )


@contextmanager
def running_cluster(declared: str, diary: Diary) -> Iterator[SoakCluster]:
    """All servers of the cluster profile, on the ports that it has, with the streams that are declared.

    Raises `ServiceError`: where the profile's own cluster runs, its ports are taken.
    """
    with ExitStack() as leaving:
        home = Path(tempfile.mkdtemp(prefix="springline-soak-", dir="/tmp"))
        home.chmod(0o711)  # PostgreSQL, started by root, runs as another user
        leaving.callback(shutil.rmtree, home, ignore_errors=True)
        leaving.callback(_keep_logs, home, diary)
        (home / "streams.toml").write_text(declared)
        os.environ.update(_OWN, SPRINGLINE_HOME=str(home), SPRINGLINE_STREAMS_FILE=str(home / "streams.toml"))
        settings = ServiceSettings()
        os.environ["SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS"] = f"127.0.0.1:{settings.kafka_port}"
        for folder in (default_cache_folder(home), ramdisk(settings)):
            leaving.callback(shutil.rmtree, folder, ignore_errors=True)
        supervisor = Supervisor(home, say=diary.note)
        servers = make_servers(settings.demo_servers, settings)
        leaving.callback(_end, supervisor)
        leaving.callback(_end_streams, StreamSettings())
        supervisor.up(servers, _PATIENCE)
        address = next(server.address for server in servers if server.name == "airflow")
        api = leaving.enter_context(closing(AirflowApi(address, USER, password(home))))
        platform = leaving.enter_context(closing(open_platform(runner=NoRunner())))
        soak_cluster = SoakCluster(settings, supervisor, api, platform, StreamSettings(), diary)
        try:
            yield soak_cluster
        finally:
            soak_cluster.over.set()


def _keep_logs(home: Path, diary: Diary) -> None:
    """All that was logged stays in `var/soak`, until the next one."""
    logs_folder = project_folder() / "var" / "soak"
    shutil.rmtree(logs_folder, ignore_errors=True)
    for file in (*home.rglob("*.log"), *home.glob(f"streams/*/{LOG}"), *home.glob("streams/*/*.json")):
        with suppress(OSError):
            to = logs_folder / file.relative_to(home)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
    diary.note(f"logs are in {logs_folder}")


def _end_streams(settings: StreamSettings) -> None:
    for folder in settings.jobs_folder.glob("*/"):
        job = JobFolder(folder)
        kill_application(read_status(folder.name, job, time.time()), job)


def _end(supervisor: Supervisor) -> None:
    for name in reversed(supervisor.started_servers()):
        supervisor.down(name, 10)
