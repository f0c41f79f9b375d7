"""The application of a stream job on a real Kafka: a process of its own that a test may harm, and start again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psutil

from springline.services.demo.fault_injection import delete_folder
from springline.services.packages.java import find_java
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.application.supervision import launch
from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.spark import worker_daemon
from tests.support.servers.servers import Running
from tests.support.waiting import until


class Application:
    """A job with a home, a declaration and states of its own; it is started by hand, or by waiting for something."""

    def __init__(self, kafka: Running, home: Path, name: str, declared: str, **settings: str) -> None:
        self.home = home
        self.name = name
        self.folder = JobFolder(home / "streams" / name)
        self.state = home / "state"
        self.kafka = kafka
        home.mkdir(parents=True)
        (home / "streams.toml").write_text(declared)
        self._environment = {
            **os.environ,
            **find_java(os.environ, home).environment(os.environ.get("PATH", "")),
            "SPRINGLINE_HOME": str(home),
            "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": kafka.address,
            "SPRINGLINE_STREAMS_FILE": str(home / "streams.toml"),
            "SPRINGLINE_STREAM_STATE_DIR": str(self.state),
            **settings,
        }
        self._application: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the application, unless it lives."""
        if self._application is None or self._application.poll() is not None:
            self._application = launch(self.name, self.folder, environment=self._environment)

    def status(self) -> JobStatus:
        """How the job is."""
        return read_status(self.name, self.folder, time.time())

    def await_(self, condition: Callable[[JobStatus], bool], *, patience: float, restart: bool = True) -> JobStatus:
        """Wait until `condition` holds; the application is started again when it ends, as a supervisor would."""

        def status_if_met() -> JobStatus | None:
            status = self.status()
            if condition(status):
                return status
            if restart:
                self.start()
            return None

        status = until(status_if_met, seconds=patience, every=0.2, reason=lambda: f"{self.status()}\n{self.log()}")
        assert status is not None
        return status

    def await_rounds(self, more: int) -> None:
        """Wait until the application works, and then until it has ended so many rounds more, in every stage."""
        initial_stages = self.await_(lambda status: status.is_ready, patience=240).stages

        def on(status: JobStatus) -> bool:
            ended = (stage["round"] >= initial_stages[name]["round"] + more for name, stage in status.stages.items())
            return status.is_ready and all(ended)

        self.await_(on, patience=240)

    def run(self, command: str, *arguments: str) -> str:
        """What a command about the job prints."""
        command_line = [sys.executable, "-m", "springline", "stream", *command.split(), self.name, *arguments]
        completed_process = subprocess.run(
            command_line, env=self._environment, capture_output=True, text=True, timeout=120
        )
        assert completed_process.returncode == 0, completed_process.stderr
        return completed_process.stdout

    def stop(self) -> None:
        """Stop at a round's boundary."""
        self.folder.request_stop()
        assert self._application is not None
        assert self._application.wait(120) == 0, self.log()

    def close(self) -> None:
        """End whatever lives, and delete the job's topics: a broker that comes back reads all that it holds."""
        if self._application is not None and self._application.poll() is None:
            self.kill_all()
        shutil.rmtree(self.home, ignore_errors=True)
        with suppress(LogUnavailableError), closing(Kafka(Cluster(self.kafka.address), timeout=20)) as log:
            log.remove([topic for topic in log.all_topics() if topic.startswith(self.name)])

    def log(self) -> str:
        """The end of what the application has printed."""
        return self.folder.log_file.read_text()[-3000:] if self.folder.log_file.exists() else ""

    # ---- faults

    def processes(self, kind: str) -> list[psutil.Process]:
        """Processes of the application: `driver`, `jvm`, or Python `worker`s."""
        assert self._application is not None
        driver = psutil.Process(self._application.pid)
        below = driver.children(recursive=True)
        jvms = [each for each in below if _command(each).partition(" ")[0].endswith("java")]
        daemons = [each for each in below if worker_daemon.MODULE in _command(each)]
        daemon_pids = {each.pid for each in daemons}
        workers = [each for each in daemons if _parent(each) in daemon_pids]
        return {"driver": [driver], "jvm": jvms, "worker": workers}[kind]

    def kill(self, kind: str) -> None:
        """kill -9 of the first of those processes that lives."""
        for process in self.processes(kind)[:1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def lose_states(self) -> None:
        """Delete the states and Spark's checkpoints, while they are written to or not."""
        delete_folder(self.state / self.name)

    def lose_checkpoints(self) -> None:
        """Delete Spark's own log of rounds."""
        delete_folder(self.state / self.name / ".queries")

    def kill_all(self) -> None:
        """kill -9 of the application and all that it started."""
        assert self._application is not None
        with suppress(psutil.NoSuchProcess):
            everyone = psutil.Process(self._application.pid).children(recursive=True)
            os.killpg(self._application.pid, signal.SIGKILL)
            for process in everyone:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._application.wait(10)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):  # it may be a zombie
        return " ".join(process.cmdline())
    return ""


def _parent(process: psutil.Process) -> int | None:
    with suppress(psutil.NoSuchProcess):  # it may end meanwhile
        return process.ppid()
    return None
