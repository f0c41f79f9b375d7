"""CPU seconds of a benchmark's processes, by what they are: workers, broker, driver, JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

Part = Literal["workers", "broker", "driver", "JVM"]
PARTS: tuple[Part, ...] = ("workers", "broker", "driver", "JVM")
TITLE = f"CPU ns: {', '.join(PARTS)}"  # of a column with the parts of each row's CPU time


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds of each part, those of processes that have ended included."""

    seconds: Mapping[Part, float]

    @property
    def total(self) -> float:
        """The seconds of all parts."""
        return sum(self.seconds.values())

    def since(self, earlier: CpuTime) -> CpuTime:
        """Return what was spent since an earlier moment."""
        return CpuTime({part: self.seconds[part] - earlier.seconds[part] for part in PARTS})

    def per_row(self, rows: int) -> CpuTime:
        """Return the share of one of so many rows."""
        return CpuTime({part: self.seconds[part] / rows for part in PARTS})

    def nanoseconds(self) -> str:
        """Return the parts in nanoseconds, in the order of `PARTS`."""
        return ", ".join(f"{1e9 * self.seconds[part]:.0f}" for part in PARTS)


def cpu_time(pid: int | None = None) -> CpuTime:
    """Return what a process, by default this one, and all that it has started have spent so far."""
    driver = psutil.Process(pid)
    spent: dict[Part, float] = dict.fromkeys(PARTS, 0.0)
    for process in (driver, *driver.children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            part: Part = "driver" if process.pid == driver.pid else part_of(process.cmdline())
            spent[part] += times.user + times.system + times.children_user + times.children_system
    return CpuTime(spent)


def part_of(command: Sequence[str]) -> Part:
    """Return which part a process with this command line is, if it is not the driver.

    >>> part_of(["/opt/java/bin/java", "-Xmx1g", "kafka.Kafka"]), part_of(["python", "-m", "worker"])
    ('broker', 'workers')
    """
    if "kafka.Kafka" in command:
        return "broker"
    return "JVM" if command and Path(command[0]).name == "java" else "workers"
