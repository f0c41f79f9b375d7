"""Looks after a tracked topology beside its stages: the low-water marks, whether time stands still, whether it is full.

What it decides it writes into small files that the next rounds name or wait for; what it saw goes into the heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from springline.spark_jobs.streaming.backpressure.rate_limit import Planned
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.report import Report
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.tracking.config import FULL, LOW, PACE, RING, Tracked
from springline.spark_jobs.streaming.tracking.latency_histogram import percentiles
from springline.spark_jobs.streaming.tracking.ring import newest

_LOOK_SECONDS = 0.25
_AWAY_SECONDS = 4.0  # without a round, though an idle stage has one every second: nobody is there to be late
_ROOM_AGAIN = 0.8  # of the roots in flight that there may be, below which the source goes on
_SHARES = (0.5, 0.9, 0.99)
_FLOWS = (("again", "retried"), ("forwarded", "adopted"))  # what left an acker, and what came to one

Gauges = Sequence[Mapping[str, Any] | None]  # of all ackers, by unit; None: it has told nothing


def lows_of(
    before: Mapping[str, int], gauges: Gauges, earlier: Gauges, ackers: Sequence[int], dealt: int
) -> dict[str, int]:
    """The offsets, by partition, below which every root is finished; they never go back.

    Where records are on their way between ackers, or roots on their way to be sent again, no acker holds them: marks
    move only when two looks in a row (`earlier`, then `gauges`) find that all that has left has come, and nothing has
    moved in between. An acker of the ring that has told nothing yet holds the marks where they are. And of the roots
    that ackers have named, to be sent again or as given up, `dealt` were dealt with before the second look: below the
    marks, what was given up is among the dead letters.
    """
    told = {unit: each for unit, each in enumerate(gauges) if each is not None}
    still = _moved(gauges) == _moved(earlier)
    level = all(
        sum(each[out] for each in told.values()) == sum(each[back] for each in told.values()) for out, back in _FLOWS
    )
    named = sum(each["again"] + each["gone"] for each in told.values())
    if not still or not level or named != dealt or not set(ackers) <= set(told):
        return dict(before)
    holding = [each for unit, each in told.items() if unit in ackers or each["in_flight"]]
    partitions = {partition for each in holding for partition in each["lows"]}
    found = {partition: min(each["lows"].get(partition, 0) for each in holding) for partition in partitions}
    return {key: max(found.get(key, 0), before.get(key, 0)) for key in sorted({*found, *before})}


def _moved(gauges: Gauges) -> list[list[int] | None]:
    """What has left each acker and come to it so far."""
    return [None if each is None else [each[name] for pair in _FLOWS for name in pair] for each in gauges]


def dealt_with(report: Report | None) -> int:
    """How many of the roots that ackers have named a unit has sent again, or told as given up."""
    return sum(report.counts.get(name, 0) for name in ("again", "gone")) if report is not None else 0


def stands_still(reports: Mapping[str, Sequence[Report | None]], began: float, now: float, timeout: float) -> str:
    """Why time is to stand still; empty where it goes on. `reports` are of all stages behind the source's, by unit."""
    for stage, units in reports.items():
        for report in units:
            if report is None or report.at < began or now - report.at > _AWAY_SECONDS:
                return f"{stage} is away"
            if report.behind and report.newest and report.at - report.newest > timeout / 2:
                return f"{stage} is behind"
    return ""


def under_way(planned: Planned | None, reports: Sequence[Report | None], began: float, now: float) -> bool:
    """Whether a stage that sends roots has been long at its newest round with messages.

    What the ackers know of those roots then may be half of what the round sends.
    """
    if planned is None or planned.at < began or now - planned.at <= _AWAY_SECONDS:
        return False
    return any(report is None or report.round < planned.number for report in reports)


@dataclass
class _Seen:
    """What a look has found."""

    gauges: Gauges = ()
    still: str = "starting"
    full: bool = False
    lows: Mapping[str, int] = field(default_factory=dict)
    dealt: int = 0


class Oversight(BackgroundService):
    """Does it for the stages of a job, every quarter of a second."""

    section = "tracking"

    def __init__(self, tracked: Tracked, folder: JobFolder, stages: Sequence[Stage]) -> None:
        super().__init__("oversight")
        self._tracked = tracked
        self._path = folder.path
        self._stages = stages
        self._began = time.time()
        self._seen = _Seen(lows=read_json(folder.path / LOW)["lows"])

    def _work(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._trying("tracking is not looked after"):
                self._look()

    def status(self) -> dict[str, Any]:
        """How tracking is, for the heartbeat."""
        seen = self._seen
        ackers = {unit: each for unit, each in enumerate(seen.gauges) if each is not None}
        totals = {
            name: sum(each[name] for each in ackers.values())
            for name in ("in_flight", "completed", "again", "gone", "bytes")
        }
        durations = percentiles((each["durations"] for each in ackers.values()), _SHARES)
        return {
            **totals,
            "waits": seen.full,
            "still": seen.still,
            "lows": dict(seen.lows),
            "ackers": [
                {"acker": unit, "in_flight": each["in_flight"], "completed": each["completed"], "epoch": each["epoch"]}
                for unit, each in ackers.items()
            ],
            "seconds": dict(zip(("p50", "p90", "p99"), durations, strict=True)),
        }

    def _look(self) -> None:
        reports = {stage.name: [self._report(stage, unit) for unit in range(stage.units)] for stage in self._stages}
        gauges = [None if report is None else report.gauges for report in reports["acker"]]
        # The first stage of a foreign topology brings its acks too: while it does not, nothing of it is late.
        waited = [stage for stage in self._stages if stage.stamped or self._tracked.foreign]
        behind = {stage.name: reports[stage.name] for stage in waited}
        at = time.time()
        springs = [stage for stage in self._stages if stage.acks and not stage.stamped]
        busy = (s.name for s in springs if under_way(Planned.read(s), reports[s.name], self._began, at))
        own = [stage.name for stage in self._stages if stage.own]
        before = self._seen
        _, ackers = newest(read_json(self._path / RING))
        in_flight = sum(each["in_flight"] for each in gauges if each is not None)
        bound = self._tracked.in_flight * (_ROOM_AGAIN if before.full else 1.0)
        self._seen = now = _Seen(
            gauges,
            stands_still(behind, self._began, at, self._tracked.timeout)
            or next((f"{name} has a round under way" for name in busy), ""),
            in_flight > bound and not self._tracked.foreign,  # it cannot be held up without its acks
            lows_of(before.lows, gauges, before.gauges, ackers, before.dealt),
            sum(dealt_with(report) for name in own for report in reports[name]),
        )
        if bool(now.still) != bool(before.still) or before.still == "starting":
            write_json(self._path / PACE, {"still": bool(now.still)})
        if now.lows != before.lows:
            write_json(self._path / LOW, {"lows": now.lows})
        if now.full:
            (self._path / FULL).touch()
        else:
            (self._path / FULL).unlink(missing_ok=True)

    def _report(self, stage: Stage, unit: int) -> Report | None:
        """The newest report of a unit since the application began: before that the job may have gone back in time."""
        report = Report.read(stage.folder(unit))
        return report if report is not None and report.at >= self._began else None
