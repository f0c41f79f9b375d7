"""Memory and open files of everything that lives in a soak's home, now and then, and whether they level off."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.cluster.soaking.cluster import SoakCluster
from benchmarks.cluster.soaking.streams import JOBS, status_of
from benchmarks.streams.running_job import memory_of
from springline.persistence.private_files import default_cache_folder
from springline.services.servers.alluxio import ramdisk

_SECONDS = 20.0  # between two looks
_ASKED_SECONDS = 30.0  # within which who started a process asks how it ended


@dataclass(frozen=True)
class Sample:
    """A moment: seconds since the soak began, bytes of processes and of files in memory, open files.

    `memory` is by server or stream: what a process has started counts with it.
    """

    at: float
    memory: Mapping[str, int]
    files_in_memory: int
    open_files: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of all processes."""
        return sum(self.memory.values())


class ResourceMonitor:
    """Looks in a thread of its own until the world is over."""

    def __init__(self, soak_cluster: SoakCluster) -> None:
        self._soak_cluster = soak_cluster
        self.samples: list[Sample] = []
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        while not self._soak_cluster.over.wait(_SECONDS):
            self.samples.append(sample(self._soak_cluster))


def sample(soak_cluster: SoakCluster) -> Sample:
    """Look now."""
    processes = soak_cluster.processes()
    home = soak_cluster.settings.home
    folders = (default_cache_folder(home), ramdisk(soak_cluster.settings))
    memory: Counter[str] = Counter()
    owners = _owners(soak_cluster)
    for process in processes:
        with suppress(psutil.Error, ProcessLookupError):
            memory[owners.get(os.getsid(process.pid), "others")] += memory_of(process)
    return Sample(soak_cluster.diary.now, memory, sum(map(_size, folders)), sum(map(_open, processes)))


def _owners(soak_cluster: SoakCluster) -> dict[int, str]:
    """By session, of which server or stream it is."""
    owners = {}
    for server in soak_cluster.servers:
        for name, pid in soak_cluster.supervisor.status(server.name).processes.items():
            owners[pid] = f"{server.name} ({name})"
    for job in JOBS:
        if application := status_of(soak_cluster, job).pid:
            owners[application] = f"stream {job}"
    return owners


def growers(samples: Sequence[Sample], many: int = 4) -> str:
    """Who holds more in the last quarter than in the second, in words, those with the most first."""
    names = {name for each in samples for name in each.memory}
    courses = {name: [each.memory.get(name, 0) for each in samples] for name in names}
    more = {name: mean_of(course, 3) - mean_of(course, 1) for name, course in courses.items()}
    first = sorted(more, key=lambda name: -more[name])[:many]
    return ", ".join(f"{name} {more[name] / 1e6:+,.0f} MB" for name in first)


def mean_of(values: Sequence[float], quarter: int) -> float:
    """The mean of a quarter of a course, 0 to 3; 0 where there are less than four values."""
    size = len(values) // 4
    quarter_values = values[quarter * size : (quarter + 1) * size]
    return sum(quarter_values) / len(quarter_values) if quarter_values else 0.0


def growth(values: Sequence[float]) -> float:
    """By what share the mean of the last quarter is above that of the second quarter: the first one is the start."""
    return mean_of(values, 3) / (mean_of(values, 1) or 1) - 1 if len(values) > 3 else 0.0


def zombies(soak_cluster: SoakCluster) -> int:
    """Processes that ended a while ago and whose parents have not waited for them, below what lives in the home.

    The shell that Spark's own start script leaves below each of its JVMs does not count.
    """
    before = _zombies(soak_cluster)
    time.sleep(_ASKED_SECONDS)
    return len(before & _zombies(soak_cluster))


def _zombies(soak_cluster: SoakCluster) -> set[psutil.Process]:
    zombies = set()
    for process in soak_cluster.processes():
        with suppress(psutil.Error):
            left = {"bash"} if process.name() == "java" else set()
            zombies |= {each for each in process.children() if each.status() == "zombie" and each.name() not in left}
    return zombies


def _open(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.num_fds())
    return 0


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_blocks * 512 if file.is_file() else 0
    return total
