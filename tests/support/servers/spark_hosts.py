"""A Spark cluster whose workers share nothing but the network: each has files of its own, as on another host."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from springline.persistence.profile import import_root, project_folder
from springline.services.packages.java import find_java, spark_home
from springline.services.process.ports import free_ports
from tests.support.waiting import until

_DEPLOY = "org.apache.spark.deploy"
_HIDDEN = ("/dev/shm", "/tmp", "/var/tmp")  # replaced by empty memory file systems
_CODE = (str(project_folder()), sys.prefix)  # which stay, also where they lie in one of these
_HOME = "/tmp/home"


def can_unshare() -> bool:
    """Whether this process may create mount namespaces."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def _hide(folders: Sequence[str], but: Sequence[str]) -> str:
    """A script that replaces folders by empty memory file systems, in which the folders `but` are what they were."""
    unhidden = {number: shlex.quote(folder) for number, folder in enumerate(but, 3)}
    lines = ["set -e", *(f"exec {number}<{folder}" for number, folder in unhidden.items())]
    lines += [f"mount -t tmpfs -o size=2g tmpfs {folder}" for folder in folders]
    for number, folder in unhidden.items():
        if any(Path(but[number - 3]).is_relative_to(each) for each in folders):
            lines += [f"mkdir -p {folder}", f"mount --no-canonicalize --bind /proc/self/fd/{number} {folder}"]
        lines.append(f"exec {number}<&-")
    return "; ".join(lines)


class SparkHosts:
    """A master here, and hosts that each run one worker of `cores` cores.

    A host has its own `/dev/shm`, `/tmp` and home; what its processes have written is lost with the last of them.
    """

    def __init__(self, folder: Path, hosts: int, cores: int = 8) -> None:
        self._folder = folder
        self._cores = cores
        port = free_ports(2)
        self.address = f"spark://127.0.0.1:{port}"
        master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(port + 1)]
        self._master = self._start("master", [*self._spark_class("master.Master"), *master])
        self.hosts: list[subprocess.Popen[bytes]] = []
        for _ in range(hosts):
            self.add()

    def add(self) -> None:
        """Start another host."""
        worker = ["--host", "127.0.0.1", "--cores", str(self._cores), "--memory", "4g", "--work-dir", f"{_HOME}/work"]
        command = [*self._spark_class("worker.Worker"), *worker, self.address]
        script = f"{_hide(_HIDDEN, _CODE)}; mkdir -p {_HOME}; cd {_HOME}; exec {shlex.join(command)}"
        home = {"HOME": _HOME, "SPRINGLINE_HOME": _HOME, "SPRINGLINE_STREAM_STATE_DIR": "/dev/shm/state"}
        name = f"host-{len(self.hosts)}"
        self.hosts.append(self._start(name, ["unshare", "--mount", "sh", "-c", script], home))

    def kill(self, host: int) -> None:
        """kill -9 of everything that runs on a host: its memory is lost with it."""
        for process in self._processes(host):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def has_states(self, host: int) -> bool:
        """Whether a host has states of units in its memory."""
        state = Path(f"/proc/{self.hosts[host].pid}/root/dev/shm/state")
        return any(state.rglob("*.json"))

    def close(self) -> None:
        """End all hosts and the master."""
        for host in range(len(self.hosts)):
            self.kill(host)
        os.killpg(self._master.pid, signal.SIGKILL)
        for process in (self._master, *self.hosts):
            process.wait(20)

    def _processes(self, host: int) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            worker = psutil.Process(self.hosts[host].pid)
            return [worker, *worker.children(recursive=True)]
        return []

    def _spark_class(self, name: str) -> list[str]:
        return [str(spark_home() / "bin" / "spark-class"), f"{_DEPLOY}.{name}"]

    def _start(
        self, name: str, command: Sequence[str], more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        environment = {each: value for each, value in os.environ.items() if not each.startswith("SPRINGLINE_")}
        environment |= {
            **find_java(os.environ, self._folder).environment(os.environ.get("PATH", "")),
            "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": "/tmp/spark", "PYTHONPATH": str(import_root()), "PYSPARK_PYTHON": sys.executable,
            **(more or {}),
        }  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def await_ready(self) -> None:
        """Wait until the master knows every host that lives."""
        running_hosts = sum(host.poll() is None for host in self.hosts)
        log = self._folder / "master.log"
        until(
            lambda: log.read_text().count("Registering worker") >= running_hosts, seconds=120, every=0.2,
            reason=lambda: "\n".join(path.read_text()[-2000:] for path in sorted(self._folder.glob("*.log"))),
        )  # fmt: skip
        time.sleep(0.5)
