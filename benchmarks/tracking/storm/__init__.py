"""The table of Storm's own acker, from its published jar, as a peer of ours."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Row
from springline.services.packages.jars import Jars
from springline.services.packages.java import find_java
from springline.services.settings import ServiceSettings

_SOURCE = Path(__file__).parent / "AckerTable.java"
_TURNS = 5
_ENOUGH = 1_000_000  # with fewer roots, what the compiler leaves in the heap shows


def storm(count: int) -> Iterator[Row]:
    """Acks a second and bytes a root with so many roots in flight: a map of boxed ids to objects, in three parts."""
    settings = ServiceSettings()
    jars = Jars(settings).folder("storm")
    java = find_java(os.environ, settings.home).home / "bin" / "java"
    heap = [
        "-XX:+UseSerialGC",
        "-Xms1g",
        "-Xmx4g",
        "-XX:SoftRefLRUPolicyMSPerMB=0",
    ]  # what the compiler left goes first
    command = [str(java), *heap, "-cp", f"{jars}/*", str(_SOURCE), str(count), str(_TURNS)]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    middle, times = statistics.median(measured["seconds"]), measured["seconds"]
    if measured["held"] != count:
        raise ValueError(f"Storm's table holds {measured['held']} roots of {count}")
    yield {
        "case": f"Storm's table: acks, {count:,} in flight",
        "figure": round(count / middle / 1e6, 4),
        "unit": "M/s",
        "spread": round((max(times) - min(times)) / middle, 2),
    }
    if count >= _ENOUGH:
        yield {
            "case": f"Storm's table: memory a root, {count:,} in flight",
            "figure": round(measured["bytes"] / count, 4),
            "unit": "B",
        }
