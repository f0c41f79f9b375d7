"""Monitors a tracked topology: updates the low watermarks, pauses timeouts, and limits the roots in flight.

Its decisions are written to small files that the next rounds name or check; its observations go into the heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from springline.spark_jobs.streaming.backpressure.rate_limit import PlannedRound, read_planned
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.rounds import IDLE_SECONDS
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.tracking.config import CLOCK, FULL, LOW_WATERMARKS, RING, TrackingConfig
from springline.spark_jobs.streaming.tracking.latency_histogram import percentiles
from springline.spark_jobs.streaming.tracking.ring import newest_epoch

_POLL_SECONDS = 0.25
_OPEN_SECONDS = 4.0  # for which a round may be in progress while time goes on
_AWAY_SECONDS = IDLE_SECONDS + _OPEN_SECONDS  # without a round: the stage is down
_RESUME_SHARE = 0.8  # of `max_in_flight`, below which the source resumes
_SHARES = (0.5, 0.9, 0.99)
_FLOWS = (  # what left an acker, what arrived at one
    ("audit_requests", "audited"), ("replay_requests", "retried"), ("forwarded", "adopted"),
)  # fmt: skip
_REPORTED, _HANDLED = ("audit_requests", "replay_requests", "failed"), ("audited", "retried", "failed")

Gauges = Sequence[Mapping[str, Any] | None]  # of all ackers, by unit; None: not reported yet


def low_watermarks(
    previous: Mapping[str, int], gauges: Gauges, earlier: Gauges, ackers: Sequence[int], handled: int
) -> dict[str, int]:
    """Return the offsets, by partition, below which every root is finished; they never decrease.

    Records on their way between ackers, and roots on their way to be sent again, are held by no acker. So watermarks
    only advance if two consecutive observations (`earlier`, then `gauges`) find that everything sent has arrived, and
    nothing has moved in between. An acker of the ring that has not reported yet stops the watermarks. The number of
    roots that ackers have reported, as to be audited, sent again or failed, must equal `handled`, the number dealt with
    before the second observation: below the watermarks, failed roots are in the dead-letter queue.
    """
    gauges_by_acker = {unit: each for unit, each in enumerate(gauges) if each is not None}
    is_unchanged = _moved_counts(gauges) == _moved_counts(earlier)
    is_drained = all(
        sum(each[out] for each in gauges_by_acker.values()) == sum(each[back] for each in gauges_by_acker.values())
        for out, back in _FLOWS
    )
    named = sum(each[name] for each in gauges_by_acker.values() for name in _REPORTED)
    if not is_unchanged or not is_drained or named != handled or not set(ackers) <= set(gauges_by_acker):
        return dict(previous)
    holders = [each for unit, each in gauges_by_acker.items() if unit in ackers or each["in_flight"]]
    partitions = {partition for each in holders for partition in each["low_watermarks"]}
    least_offsets = {
        partition: min(each["low_watermarks"].get(partition, 0) for each in holders) for partition in partitions
    }
    return {key: max(least_offsets.get(key, 0), previous.get(key, 0)) for key in sorted({*least_offsets, *previous})}


def _moved_counts(gauges: Gauges) -> list[list[int] | None]:
    """Return the counts of records and roots that left and reached each acker."""
    return [None if each is None else [each[name] for pair in _FLOWS for name in pair] for each in gauges]


def handled_count(report: UnitReport | None) -> int:
    """Return how many of the roots that ackers reported a unit has audited, sent again, or reported as failed."""
    return sum(report.totals.counts.get(name, 0) for name in _HANDLED) if report is not None else 0


def pause_reason(reports: Mapping[str, Sequence[UnitReport | None]], began: float, now: float, timeout: float) -> str:
    """Return why timeouts are paused; empty if they are not. `reports`: by stage downstream of the source, by unit."""
    for stage, units in reports.items():
        for report in units:
            if report is None or report.round.ended_at < began or now - report.round.ended_at > _AWAY_SECONDS:
                return f"{stage} is down"
            if (
                report.round.lag
                and report.round.newest_timestamp
                and report.round.ended_at - report.round.newest_timestamp > timeout / 2
            ):
                return f"{stage} lags"
    return ""


def has_open_round(planned: PlannedRound, reports: Sequence[UnitReport | None], began: float, now: float) -> bool:
    """Whether a stage has been processing a round for more than 4 s.

    Of one that sends roots, the ackers may then know only half of those that the round sends; of another, a task may be
    down.
    """
    if planned.planned_at < began or now - planned.planned_at <= _OPEN_SECONDS:
        return False
    return any(report is None or report.round.number < planned.number for report in reports)


@dataclass
class _Observation:
    """Result of one observation."""

    gauges: Gauges = ()
    pause_reason: str = "starting"
    is_full: bool = False
    low_watermarks: Mapping[str, int] = field(default_factory=dict)
    handled: int = 0


class TrackingMonitor(BackgroundService):
    """Runs the monitoring for the stages of a job, every quarter of a second."""

    section = "tracking"

    def __init__(
        self, config: TrackingConfig, folder: JobFolder, stages: Sequence[Stage], reports: ReportSource
    ) -> None:
        super().__init__("tracking-monitor")
        self._config = config
        self._path = folder.path
        self._stages = stages
        self._reports = reports
        self._began = time.time()
        self._observation = _Observation(low_watermarks=read_json(folder.path / LOW_WATERMARKS)["low_watermarks"])

    def _work(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            with self._trying("tracking monitor failed"):
                self._observe()

    def status(self) -> dict[str, Any]:
        """Return the status of tracking, for the heartbeat."""
        observation = self._observation
        ackers = {unit: each for unit, each in enumerate(observation.gauges) if each is not None}
        totals = {
            name: sum(each[name] for each in ackers.values()) for name in ("in_flight", "completed", "failed", "bytes")
        }
        durations = percentiles((each["durations"] for each in ackers.values()), _SHARES)
        return {
            **totals,
            "retried": sum(each["replay_requests"] for each in ackers.values()),
            "source_paused": observation.is_full,
            "pause_reason": observation.pause_reason,
            "low_watermarks": dict(observation.low_watermarks),
            "ackers": [
                {"acker": unit, "in_flight": each["in_flight"], "completed": each["completed"], "epoch": each["epoch"]}
                for unit, each in ackers.items()
            ],
            "seconds": dict(zip(("p50", "p90", "p99"), durations, strict=True)),
        }

    def _observe(self) -> None:
        reports = {stage.name: [self._report(stage, unit) for unit in range(stage.units)] for stage in self._stages}
        gauges = [None if report is None else report.round.gauges for report in reports["acker"]]
        # The first stage of a foreign topology also brings its acks: while it does not run, nothing is late.
        late_stages = [stage for stage in self._stages if stage.stamped or self._config.foreign]
        downstream_reports = {stage.name: reports[stage.name] for stage in late_stages}
        observed_at = time.time()
        busy_stages = (
            stage.name
            for stage in self._stages
            if any(
                has_open_round(planned, reports[stage.name], self._began, observed_at)
                for planned in read_planned(self._path, stage.name)
            )
        )
        own = [stage.name for stage in self._stages if stage.reads_feedback]
        previous = self._observation
        _, ackers = newest_epoch(read_json(self._path / RING))
        in_flight = sum(each["in_flight"] for each in gauges if each is not None)
        bound = self._config.max_in_flight * (_RESUME_SHARE if previous.is_full else 1.0)
        self._observation = observation = _Observation(
            gauges,
            pause_reason(downstream_reports, self._began, observed_at, self._config.timeout)
            or next((f"{name} has a round in progress" for name in busy_stages), ""),
            in_flight > bound and not self._config.foreign,  # a foreign spring cannot be stopped without its acks
            low_watermarks(previous.low_watermarks, gauges, previous.gauges, ackers, previous.handled),
            sum(handled_count(report) for name in own for report in reports[name]),
        )
        if bool(observation.pause_reason) != bool(previous.pause_reason) or previous.pause_reason == "starting":
            write_json(self._path / CLOCK, {"paused": bool(observation.pause_reason)})
        if observation.low_watermarks != previous.low_watermarks:
            write_json(self._path / LOW_WATERMARKS, {"low_watermarks": observation.low_watermarks})
        if observation.is_full:
            (self._path / FULL).touch()
        else:
            (self._path / FULL).unlink(missing_ok=True)

    def _report(self, stage: Stage, unit: int) -> UnitReport | None:
        """Return the newest report of a unit since the application began; older ones may precede a rewind."""
        report = self._reports.reports(stage.name).get(unit)
        return report if report is not None and report.round.ended_at >= self._began else None
