"""`python -m benchmarks.tracking.memory LAYOUT COUNT`: by how much a process grows with so many roots in flight."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from contextlib import suppress
from typing import cast

import numpy as np
import psutil

from springline.spark_jobs.streaming.tracking.acker.table import AckTable, Layout
from springline.spark_jobs.streaming.tracking.ring import AckerRing

_BUFFER = 50_000
_SPREAD = np.uint64(7_368_787)  # a prime: offsets come in no order


def full(layout: Layout, count: int) -> AckTable:
    """A table with so many roots in flight, each acked once: single roots in no order, or ranges of messages."""
    table = AckTable(layout, 0, AckerRing.of([0]))
    for first in range(0, count, _BUFFER):
        numbers = np.arange(first, first + _BUFFER, dtype=np.uint64)
        if layout == "slots":
            table.register(numbers * _SPREAD % np.uint64(count) << np.uint64(16), 1, np.uint64(1 << 63), 1)
        else:
            table.register_range(0, first, _BUFFER, 1, np.uint64(1 << 63), 1, 1)
    for first in range(0, count, _BUFFER):
        numbers = np.arange(first, first + _BUFFER, dtype=np.uint64)
        table.ack(numbers * _SPREAD % np.uint64(count) << np.uint64(16), 1, numbers + np.uint64(1), 1)
    assert table.in_flight == count
    return table


def main(layout: str, count: str) -> None:
    """Print the growth, after a small table has been made and dropped, so that everything is compiled."""
    table_layout, process = cast(Layout, layout), psutil.Process()
    full(table_layout, _BUFFER)
    before = _resident(process)
    table = full(table_layout, int(count))
    print(json.dumps({"bytes": _resident(process) - before, "counted": table.nbytes}))


def _resident(process: psutil.Process) -> int:
    """The memory of a process, without what was given back to its heap alone."""
    gc.collect()
    with suppress(AttributeError):  # glibc's
        ctypes.CDLL(None).malloc_trim(0)
    return int(process.memory_info().rss)


if __name__ == "__main__":
    main(*sys.argv[1:])
