"""The faults of a soak: each strikes something at random, and says what; some end after a while."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil
import requests

from benchmarks.cluster.soaking.cluster import SoakCluster
from benchmarks.cluster.soaking.streams import JOBS, status_of
from springline.services.demo.fault_injection import wipe_cache
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.spark import worker_daemon

_PAUSE = (5.0, 20.0)  # seconds for which something stands still, or is full


@dataclass(frozen=True)
class Struck:
    """What was done, and what ends it after so many seconds."""

    what: str
    seconds: float = 0.0
    undo: Callable[[], None] = lambda: None


Fault = Callable[[SoakCluster, random.Random], Struck]


def kill_server(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """kill -9 of a process of a server, with all that it started."""
    name = drawn.choice([server.name for server in soak_cluster.servers])
    alive = soak_cluster.supervisor.status(name).processes
    if not alive:
        return Struck(f"{name} was to be killed, and did not live")
    process = drawn.choice(sorted(alive))
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(alive[process], signal.SIGKILL)  # not by the supervisor, which waits for who starts it at the moment
    return Struck(f"killed {process} of {name}")


def kill_stream(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """kill -9 of the driver, the JVM or a Python worker of a stream."""
    job = drawn.choice(sorted(JOBS))
    kind, process = _part_of(soak_cluster, job, drawn)
    if process is not None:
        with suppress(psutil.Error):
            process.kill()
    return Struck(f"killed the {kind} of the stream {job}")


def stop_stream(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """A process of a stream stands still, and goes on."""
    job = drawn.choice(sorted(JOBS))
    kind, process = _part_of(soak_cluster, job, drawn)
    return _pause_process(f"the {kind} of the stream {job}", process, drawn)


def stop_server(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """A worker of a server, or the broker, stands still, and goes on."""
    name, process = drawn.choice([("kafka", "broker"), ("hdfs", "datanode-1"), ("alluxio", "worker-1")])
    pid = soak_cluster.supervisor.status(name).processes.get(process)
    return _pause_process(f"{process} of {name}", psutil.Process(pid) if pid else None, drawn)


def delete_cached_copies(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """Delete every copy in the cache, past the catalog."""
    try:
        return Struck(f"deleted all {wipe_cache(soak_cluster.platform.cache)} copies in the cache")
    except ServiceError as error:
        return Struck(f"the cache could not be deleted, being away: {str(error)[:80]}")


def fill_store(soak_cluster: SoakCluster, drawn: random.Random) -> Struck:
    """The under-store takes nothing more for a while: its quota is one byte."""
    folder = f"http://127.0.0.1:{soak_cluster.settings.hdfs_http_port}/webhdfs/v1/springline"

    def quota(size: int) -> None:
        quota_options = {"op": "SETQUOTA", "storagespacequota": str(size), "user.name": _user(soak_cluster)}
        requests.put(folder, params=quota_options, timeout=30).raise_for_status()

    seconds = drawn.uniform(*_PAUSE)
    try:
        quota(1)
    except requests.RequestException as error:
        return Struck(f"the under-store could not be filled, being away: {type(error).__name__}")

    def empty() -> None:
        while not soak_cluster.over.wait(1):
            with suppress(requests.RequestException):  # struck down meanwhile
                quota(-1)
                break

    return Struck(f"the under-store is full for {seconds:.0f} s", seconds, empty)


FAULTS: Sequence[tuple[Fault, int]] = (  # with how often each is drawn
    (kill_server, 5), (kill_stream, 3), (stop_server, 1), (stop_stream, 1), (delete_cached_copies, 1), (fill_store, 1),
)  # fmt: skip


def draw(drawn: random.Random) -> Fault:
    """One of them."""
    return drawn.choices([fault for fault, _ in FAULTS], [weight for _, weight in FAULTS])[0]


def _pause_process(what: str, process: psutil.Process | None, drawn: random.Random) -> Struck:
    seconds = drawn.uniform(*_PAUSE)
    if process is None:
        return Struck(f"{what} was to stand still, and did not live")

    def go_on() -> None:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGCONT)

    with suppress(psutil.Error):
        process.send_signal(signal.SIGSTOP)
    return Struck(f"{what} stands still for {seconds:.0f} s", seconds, go_on)


def _part_of(soak_cluster: SoakCluster, job: str, drawn: random.Random) -> tuple[str, psutil.Process | None]:
    """A process of a stream's application; none where it is being started."""
    pid = status_of(soak_cluster, job).pid
    try:
        driver = psutil.Process(pid) if pid else None
        below = driver.children(recursive=True) if driver else []
        jvms = [each for each in below if each.name() == "java"]
        workers = [each for each in below if worker_daemon.MODULE in " ".join(each.cmdline())]
    except psutil.Error:
        return "application", None
    kind = drawn.choice(["driver", "JVM", "worker"])
    candidates = {"driver": [driver], "JVM": jvms, "worker": workers}[kind]
    return kind, drawn.choice(candidates) if candidates else None


def _user(soak_cluster: SoakCluster) -> str:
    """Who started the NameNode: HDFS's superuser."""
    return str(psutil.Process(soak_cluster.supervisor.status("hdfs").processes["namenode"]).username())
