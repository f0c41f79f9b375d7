"""Regulates the stages of an application while it runs: measures them, obeys signals, grants planners their limits.

Signals between stages of the same application are values. A pass goes from the last stage to the first, so that a
request is obeyed in the pass in which it is made. Only signals to and from stages of the job's other application are
sent over a channel, which is opened only if there are such stages.

backpressure.json          the mode and the channel, if they differ from the declared ones
backpressure.state.json    the state of meters and admissions, from which a restarted application continues
backpressure.second.json    the same for the separate application, and the status of its stages
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.accounting import StageAccounting
from springline.spark_jobs.streaming.backpressure.admission import (
    OFF,
    Admission,
    AdmissionDecision,
    StageObservation,
    make_admission,
)
from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import BackpressureConfig, ChannelKind, read_config
from springline.spark_jobs.streaming.backpressure.rate_limit import (
    UNLIMITED_RATE,
    Credit,
    RateLimit,
    credit_of,
    write_grant,
)
from springline.spark_jobs.streaming.backpressure.signals import LEASE_SECONDS, RENEW_SECONDS, Signal
from springline.spark_jobs.streaming.backpressure.stage_meter import StageCounts, StageMeasurement, StageMeter
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.stage import Stage

INTERVAL_SECONDS = 0.05
_IDLE_INTERVAL_SECONDS = 0.5  # between two passes that only measure, or while there are no records
_IDLE_AFTER_SECONDS = 2.0  # without records that wait or move
_MAX_CPU_SHARE = 0.1  # maximum share of one core for the passes
_WRITE_SECONDS = 1.0  # between two writes of the state
_RATE_TOLERANCE = 0.01  # smaller relative changes of a rate are written with the next renewal
_MAX_CAPACITY_FACTOR = 2.0  # limit of a stage's unthrottled rate, as a multiple of its capacity
_STATE, _APART = "backpressure.state.json", "backpressure.second.json"
_STALE_SECONDS = 5.0  # age from which the other application's state is ignored


@dataclass(frozen=True, slots=True)
class _RegulatorState:
    """The content of an application's file: the states of its meters and admissions of `mode`, and its stages' status.

    The state of an admission is defined by its mode, which may be in another package.
    """

    mode: str = ""
    meters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    admissions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    written_at: float = 0.0
    stages: Mapping[str, Any] = field(default_factory=dict)
    last_error: str = ""


_STATES: Codec[_RegulatorState] = Codec(
    _RegulatorState, 1, "the state of back-pressure", "remove the file; rates are measured again from zero"
)


class Regulator:
    """Performs one measurement and decision per call.

    `stages` are all stages of the job; it regulates those in the separate application if `apart`, else the others.
    `open_channel` opens a channel of the chosen kind, for those of its stages that are throttled by stages of the other
    application.
    """

    def __init__(
        self,
        declared: BackpressureConfig,
        folder: JobFolder,
        stages: Sequence[Stage],
        tasks: int,
        open_channel: Callable[[ChannelKind, Collection[str]], Channel],
        reports: ReportSource,
        *,
        apart: bool = False,
    ) -> None:
        self._declared = declared
        self._folder = folder
        self._stages = {stage.name: stage for stage in stages if stage.in_second_application == apart}
        self._open_channel = open_channel
        self._accounting = StageAccounting(folder.path, stages, tasks, reports)
        self._receiving_stages, self._has_remote_edges = _remote_edges(self._accounting.upstreams, self._stages)
        self._file = folder.path / (_APART if apart else _STATE)
        self._other_file = None if apart or len(self._stages) == len(stages) else folder.path / _APART
        self._restored = read_value(self._file, _STATES) or _RegulatorState()
        self._meters = {name: StageMeter(self._restored.meters.get(name)) for name in self._stages}
        self.config: BackpressureConfig | None = None
        self._channel: Channel | None = None
        self._admissions: dict[str, Admission] = {}
        self._current_grants: tuple[float, Mapping[str, RateLimit]] = (0.0, {})
        self._written_at = self._observed_at = 0.0
        self._busy_at, self._applied = 0.0, -1  # when records last waited or moved; bytes that all stages have applied

    @property
    def last_error(self) -> str:
        """Description of the current error of the channel, at either end."""
        own = "" if self._channel is None else self._channel.last_error
        return own or self._other_state().last_error

    @property
    def interval(self) -> float:
        """Seconds until the next pass: few while there are records."""
        is_off = self.config is not None and self.config.mode == OFF
        is_idle = self._observed_at - self._busy_at > _IDLE_AFTER_SECONDS
        return _IDLE_INTERVAL_SECONDS if is_off or is_idle else INTERVAL_SECONDS

    def regulate(self, now: float) -> dict[str, Any]:
        """Measure and decide once, at `now` in seconds since 1970; returns the status. Raises OSError."""
        config, self._observed_at = self._apply_config(), now
        counts = self._accounting.count(now)
        applied = sum(each.applied for each in counts.values())
        if applied != self._applied or any(each.queue for each in counts.values()):
            self._busy_at, self._applied = now, applied
        signals_by_upstream: dict[str, list[Signal]] = {}
        summaries: dict[str, Any] = {}
        max_queues: dict[str, float] = {}
        limits: dict[str, RateLimit] = {}
        for name, stage in reversed(self._stages.items()):  # downstream stages before their upstreams
            signals = signals_by_upstream.get(name, [])
            if self._channel is not None:
                signals = [*signals, *self._channel.receive(name)]
            measurement = self._meters[name].measure(counts[name])
            upstreams = self._accounting.upstreams[name]
            observation = StageObservation(
                measurement, self._unthrottled_rate(stage, measurement), upstreams, signals, counts[name]
            )
            decision = self._admissions[name].decide(observation)
            for signal in decision.signals:
                signals_by_upstream.setdefault(signal.upstream, []).append(signal)
            if decision.max_queue is not None:
                max_queues[name] = decision.max_queue
            credit = self._credit(name, measurement, counts, max_queues)
            if decision.rate is not None or credit is not None:
                limits[name] = RateLimit(
                    decision.rate, self._accounting.bytes_per_offset(name), credit, measurement.round_cost
                )
            summaries[name] = _stage_summary(measurement, decision)
        if self._channel is not None:
            self._channel.send(
                [each for name, some in signals_by_upstream.items() if name not in self._stages for each in some]
            )
        self._write_grants(limits, now)
        stages = {name: summaries[name] for name in self._stages}
        self._write_state(now, stages)
        return {
            "observed_at": now,
            "mode": config.mode,
            "signal_channel": config.signal_channel if self._has_remote_edges else None,
            "stages": stages,
        }

    def with_other_stages(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of a pass, with the stages of the other application added from that one's reports."""
        stages = {**status.get("stages", {}), **self._other_state().stages}
        return {**status, "stages": {name: stages[name] for name in self._accounting.upstreams if name in stages}}

    def close(self) -> None:
        """Close the channel; rates expire with their leases."""
        if self._channel is not None:
            self._channel.close()

    def _apply_config(self) -> BackpressureConfig:
        """Apply the current configuration; another mode starts without state. Raises `ExtensionError`."""
        selected, previous = read_config(self._folder, self._declared), self.config
        if selected == previous:
            return selected
        if previous is None or previous.mode != selected.mode:
            states = self._restored.admissions if self._restored.mode == selected.mode else {}
            self._admissions = {name: make_admission(selected.mode, name, states.get(name)) for name in self._stages}
            self._restored = _RegulatorState()
        self.close()
        needed = self._has_remote_edges and selected.mode != OFF
        self._channel = self._open_channel(selected.signal_channel, self._receiving_stages) if needed else None
        self.config = selected
        return selected

    def _other_state(self) -> _RegulatorState:
        """Return the state of the other application, empty if it is stale; a file that cannot be read is its error."""
        try:
            state = read_value(self._other_file, _STATES) if self._other_file is not None else None
        except DecodeError as error:  # it runs another version
            return _RegulatorState(last_error=str(error))
        return (
            state if state is not None and self._observed_at - state.written_at < _STALE_SECONDS else _RegulatorState()
        )

    def _unthrottled_rate(self, stage: Stage, measurement: StageMeasurement) -> float:
        """Return the rate of rounds of `max_messages_per_round` messages, limited to a multiple of the capacity."""
        most = (
            stage.max_messages_per_round
            * stage.units
            * self._accounting.bytes_per_offset(stage.name)
            / max(stage.min_round_interval, 0.02)
        )
        ceiling = UNLIMITED_RATE if measurement.rate is None else _MAX_CAPACITY_FACTOR * measurement.rate
        return min(most or UNLIMITED_RATE, ceiling)

    def _credit(
        self,
        name: str,
        measurement: StageMeasurement,
        counts: Mapping[str, StageCounts],
        max_queues: Mapping[str, float],
    ) -> Credit | None:
        """Return what a stage may admit for the queues of its downstream stages; None: no stage bounds its queue."""
        credits = [
            credit_of(downstream, max_queue, counts[downstream], counts[name], measurement)
            for downstream, max_queue in max_queues.items()
            if name in self._accounting.upstreams[downstream]
        ]
        return min(credits, key=lambda credit: credit.bytes, default=None)

    def _write_grants(self, limits: Mapping[str, RateLimit], now: float) -> None:
        """Write the limits that have changed, and all before their leases end."""
        until, previous = self._current_grants
        is_renewal = bool(limits) and until - now <= LEASE_SECONDS - RENEW_SECONDS
        written = {
            name: limits.get(name)
            for name in self._stages
            if is_renewal or _differ(previous.get(name), limits.get(name))
        }
        for name, limit in written.items():
            write_grant(self._folder.path, name, limit, now + LEASE_SECONDS)
        current = {name: limit for name, limit in {**previous, **written}.items() if limit is not None}
        self._current_grants = (now + LEASE_SECONDS if is_renewal else until, current)

    def _write_state(self, now: float, stages: Mapping[str, Any]) -> None:
        if now - self._written_at < _WRITE_SECONDS or self.config is None:
            return
        meters = {name: meter.as_json() for name, meter in self._meters.items()}
        admissions = {name: admission.as_json() for name, admission in self._admissions.items()}
        last_error = "" if self._channel is None else self._channel.last_error
        state = _RegulatorState(self.config.mode, meters, admissions, now, stages, last_error)
        write_value(self._file, _STATES, state)
        self._written_at = now


class BackpressureService(BackgroundService):
    """Runs a regulator for the stages of a job, every 50 ms; less often while there are no records."""

    section = "backpressure"

    def __init__(self, regulator: Regulator) -> None:
        super().__init__("back-pressure")
        self._regulator = regulator
        self._last_status: dict[str, Any] = {}

    @property
    def last_error(self) -> str:
        """The last error, including errors of signals."""
        return super().last_error or self._regulator.last_error

    def status(self) -> dict[str, Any]:
        """Return the back-pressure status for the heartbeat; empty before the first pass."""
        return self._regulator.with_other_stages(self._last_status) if self._last_status else {}

    def _work(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            started_at = time.monotonic()
            with self._trying("back-pressure"):
                self._last_status = self._regulator.regulate(time.time())
            pause = max(self._regulator.interval, (time.monotonic() - started_at) / _MAX_CPU_SHARE)
        self._regulator.close()


def _remote_edges(upstreams: Mapping[str, Collection[str]], own: Collection[str]) -> tuple[tuple[str, ...], bool]:
    """Return which of the `own` stages are throttled by others, and whether any signal crosses between the two."""
    edges = [(downstream, upstream) for downstream, some in upstreams.items() for upstream in some]
    receiving = {upstream for downstream, upstream in edges if upstream in own and downstream not in own}
    return tuple(sorted(receiving)), any((upstream in own) != (downstream in own) for downstream, upstream in edges)


def _differ(before: RateLimit | None, after: RateLimit | None) -> bool:
    """Whether the planner of a stage needs the new limit before the next renewal."""
    if before is None or after is None:
        return before is not after
    if before.rate is None or after.rate is None:
        return before.rate is not after.rate or before.credit != after.credit
    return before.credit != after.credit or abs(after.rate - before.rate) > _RATE_TOLERANCE * before.rate


def _stage_summary(measurement: StageMeasurement, decision: AdmissionDecision) -> dict[str, Any]:
    """Return the status of a stage for display: bytes, bytes/s, seconds."""
    state = "throttled" if decision.throttled_by else "overloaded" if decision.throttles else "normal"
    return {
        "state": state,
        "queue": round(measurement.queue),
        "not_admitted": round(measurement.waiting),
        "seconds": measurement.queue_seconds,
        "rate": decision.rate,
        "capacity": measurement.rate,
        "arriving": measurement.arrival_rate,
        "applied": measurement.outflow,
        "throttled_by": [asdict(each) for each in decision.throttled_by],
        "throttles": [asdict(each) for each in decision.throttles],
    }
