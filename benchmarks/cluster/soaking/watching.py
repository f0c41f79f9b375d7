"""Memory and open files of everything that lives in a soak's home, now and then, and whether they level off."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.cluster.soaking.world import World
from benchmarks.streams.running_job import held
from persistence.platform import default_cache
from services.servers.alluxio import ramdisk

_SECONDS = 20.0  # between two looks
_ASKED_SECONDS = 30.0  # within which who started a process asks how it ended


@dataclass(frozen=True)
class Sample:
    """A moment: seconds since the soak began, bytes of processes and of files in memory, open files, processes."""

    at: float
    processes: int
    memory: int
    files_in_memory: int
    open_files: int


class Watch:
    """Looks in a thread of its own until the world is over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.samples: list[Sample] = []
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        while not self._world.over.wait(_SECONDS):
            self.samples.append(sample(self._world))


def sample(world: World) -> Sample:
    """Look now."""
    processes = world.processes()
    home = world.settings.home
    folders = (default_cache(home), ramdisk(world.settings))
    return Sample(
        world.diary.now, len(processes), sum(map(held, processes)), sum(map(_size, folders)), sum(map(_open, processes))
    )


def growth(values: Sequence[float]) -> float:
    """By what share the mean of the last quarter is above that of the second quarter: the first one is the start."""
    quarter = len(values) // 4
    if not quarter:
        return 0.0
    second, last = values[quarter : 2 * quarter], values[-quarter:]
    return sum(last) / len(last) / (sum(second) / len(second)) - 1


def zombies(world: World) -> int:
    """Processes that ended a while ago and that nobody has asked about, below what lives in the home.

    The shell that Spark's own start script leaves below each of its JVMs does not count.
    """
    before = _zombies(world)
    time.sleep(_ASKED_SECONDS)
    return len(before & _zombies(world))


def _zombies(world: World) -> set[psutil.Process]:
    found = set()
    for process in world.processes():
        with suppress(psutil.Error):
            left = {"bash"} if process.name() == "java" else set()
            found |= {each for each in process.children() if each.status() == "zombie" and each.name() not in left}
    return found


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
