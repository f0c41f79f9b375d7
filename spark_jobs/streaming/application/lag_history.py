"""The recent lag and throughput of a job: a ring of samples in a file of fixed size, an hour at ten seconds.

A sample is written in place, with one call, at the slot of its time, so nothing grows and nothing is rewritten; the
slots of a time in which the job did not run keep older samples, which `read_history` leaves out.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

FILE = "history.ring"
INTERVAL_SECONDS = 10.0
SLOTS = 360
_SAMPLE = struct.Struct("<6d")
_UNKNOWN = math.nan


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of a job at a moment (seconds since 1970): messages, seconds to drain; and its counts so far.

    `rows` and `dead_letters` count from the first start of the job, `bytes_per_second` is what its first stage applies.
    What is not known is None.
    """

    sampled_at: float
    lag: float | None
    drain_seconds: float | None
    rows: float | None
    bytes_per_second: float | None
    dead_letters: float | None

    @staticmethod
    def of(heartbeat: Mapping[str, Any]) -> LagSample:
        """Return the sample of a heartbeat."""
        stages = list(heartbeat.get("stages", {}).values())
        pressed = list(heartbeat.get("backpressure", {}).get("stages", {}).values())
        counts = [each["counts"] for each in stages]
        return LagSample(
            heartbeat["heartbeat_at"],
            max((each["lag"] for each in stages), default=None),
            max((each["seconds"] for each in pressed if each["seconds"] is not None), default=None),
            next((each["rows"] for each in counts if "rows" in each), None),
            pressed[0]["applied"] if pressed else None,
            sum(each.get("dead_letters", 0) for each in counts),
        )


@dataclass(frozen=True, slots=True)
class LagPoint:
    """A point of the curves: `rows_per_second` since the previous sample, None if that is missing or of another run."""

    sampled_at: float
    lag: float | None
    drain_seconds: float | None
    rows_per_second: float | None
    bytes_per_second: float | None
    dead_letters: float | None


def write_sample(file: Path, sample: LagSample) -> None:
    """Write a sample at its slot; creates the file. Raises OSError."""
    values = (
        sample.sampled_at, sample.lag, sample.drain_seconds, sample.rows, sample.bytes_per_second, sample.dead_letters
    )  # fmt: skip
    content = _SAMPLE.pack(*(_UNKNOWN if value is None else value for value in values))
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, content, _slot(sample.sampled_at) * _SAMPLE.size)
    finally:
        os.close(descriptor)


def read_history(file: Path, now: float, most: int = SLOTS) -> list[LagPoint]:
    """Return the newest `most` points of the last hour, the newest last; empty if the job has not run."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return []
    slots = content[: len(content) // _SAMPLE.size * _SAMPLE.size]
    raw = sorted(values for values in _SAMPLE.iter_unpack(slots) if 0 <= now - values[0] <= SLOTS * INTERVAL_SECONDS)
    return points_of(LagSample(*map(_value_or_none, values)) for values in raw)[-most:]  # type: ignore[arg-type]


def points_of(samples: Iterable[LagSample]) -> list[LagPoint]:
    """Return the points of samples in order of time, with the rows a second between two that follow each other."""
    in_order = list(samples)
    rates = [None, *(_rate(*both) for both in pairwise(in_order))]
    return [
        LagPoint(each.sampled_at, each.lag, each.drain_seconds, rate, each.bytes_per_second, each.dead_letters)
        for each, rate in zip(in_order, rates, strict=False)
    ]


def _rate(before: LagSample, after: LagSample) -> float | None:
    seconds = after.sampled_at - before.sampled_at
    if before.rows is None or after.rows is None or not 0 < seconds <= 3 * INTERVAL_SECONDS or after.rows < before.rows:
        return None
    return (after.rows - before.rows) / seconds


def _slot(at: float) -> int:
    return int(at // INTERVAL_SECONDS) % SLOTS


def _value_or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


class HistoryWriter:
    """Writes a sample of the first heartbeat in each interval."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._written = -1

    def offer(self, heartbeat: Mapping[str, Any]) -> None:
        """Write the sample of a heartbeat, if its interval has none yet. Raises OSError."""
        interval = int(heartbeat["heartbeat_at"] // INTERVAL_SECONDS)
        if interval != self._written:
            write_sample(self._file, LagSample.of(heartbeat))
            self._written = interval
