"""Rebalances a join while it runs: observes loads, decides, and writes the next epoch for the planner.

controller.json    the current table and the migrations in progress; written first, so it covers every published epoch
routing.json   the table that rounds use
units.json     the requested number of units
explain.json   the observed loads and the reasons for decisions, for people
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.errors import NeverBalancedError
from springline.spark_jobs.streaming.join.routing.controller import (
    ControllerState,
    JoinObservation,
    RebalanceConfig,
    decide,
    initial_state,
)
from springline.spark_jobs.streaming.join.routing.explain import explain
from springline.spark_jobs.streaming.join.routing.table import block_for
from springline.spark_jobs.streaming.join.task.migration import decode_copy_part
from springline.spark_jobs.streaming.join.wire import KeyBand
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.atomic_files import (
    read_json,
    read_value,
    replace_file,
    write_json,
    write_value,
)
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.report import sum_counts
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.stage import Stage

ROUTING = "routing.json"
_STATE_FILE, _UNITS_FILE, _EXPLANATION_FILE, _LOCK = "controller.json", "units.json", "explain.json", "routing.lock"
_MIGRATING_SECONDS = 0.25  # between two checks while migrations are in progress
_MAX_HISTORY = 50  # epochs whose reasons explain.json lists


@dataclass(frozen=True, slots=True)
class _RequestedUnits:
    """The requested number of units."""

    units: int


_REQUESTED_UNITS: Codec[_RequestedUnits] = Codec(
    _RequestedUnits, 1, "the requested number of units", "request it again: `springline stream rescale`"
)


def prepare_routing(folder: JobFolder, config: RebalanceConfig, max_units: int, key_band: KeyBand) -> None:
    """Create the first epoch if there is none, and publish the controller's table. Raises `InvalidJobError`."""
    with folder.lock(_LOCK):
        state = read_controller_state(folder)
        if state is not None and state.table.max_units != max_units:
            raise InvalidJobError(
                f"{folder.path.name}: max_units = {max_units}, but it was first started "
                f"with {state.table.max_units}, which "
                f"cannot be changed: write max_units = {state.table.max_units}, or use a new job name"
            )
        if state is None:
            state = initial_state(config, max_units, block_for(key_band))
            _write_controller_state(folder, state)
        write_json(folder.path / ROUTING, state.table.as_json())


def reset_routing(folder: JobFolder, config: RebalanceConfig, max_units: int, key_band: KeyBand) -> None:
    """Continue with an empty table, since nothing is stored any more; numbering of epochs and migrations continues."""
    with folder.lock(_LOCK):
        previous = read_controller_state(folder)
        if previous is not None:
            first = initial_state(config, max_units, block_for(key_band))
            table = replace(first.table, epoch=previous.table.epoch + 1)
            _write_controller_state(folder, replace(first, table=table, next_id=previous.next_id))
            write_json(folder.path / ROUTING, table.as_json())


def read_controller_state(folder: JobFolder) -> ControllerState | None:
    """Return the table and the migrations in progress; None before the first start of the job. Raises `DecodeError`."""
    path = folder.path / _STATE_FILE
    try:
        return ControllerState.decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def read_explanation(folder: JobFolder) -> dict[str, Any] | None:
    """Return the explanation that the last rebalance wrote; None before the first one."""
    explanation: dict[str, Any] | None = read_json(folder.path / _EXPLANATION_FILE)
    return explanation


def require_explanation(folder: JobFolder) -> dict[str, Any]:
    """Return the explanation of the last rebalance; raises `NeverBalancedError` before the first one."""
    explanation = read_explanation(folder)
    if explanation is None:
        raise NeverBalancedError(
            f"{folder.path.name}: no loads have been observed yet; start the job, and "
            f"try again when its first rounds are completed"
        )
    return explanation


def request_units(folder: JobFolder, units: int, max_units: int) -> None:
    """Request another number of units, whether or not the job runs; raises `InvalidJobError`."""
    if not 1 <= units <= max_units:
        raise InvalidJobError(f"{folder.path.name}: {units} units; expected 1 to {max_units} (max_units)")
    folder.make()
    write_value(folder.path / _UNITS_FILE, _REQUESTED_UNITS, _RequestedUnits(units))


def requested_units(folder: JobFolder, declared: int) -> int:
    """Return the requested number of units, or `declared` if none was requested; raises `DecodeError`."""
    requested = read_value(folder.path / _UNITS_FILE, _REQUESTED_UNITS)
    return declared if requested is None else requested.units


def units_of_gauges(gauges: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Return what tasks report of each of their units."""
    return {int(unit): own for task in gauges for unit, own in task["units"].items()}


def _write_controller_state(folder: JobFolder, state: ControllerState) -> None:
    replace_file(folder.path / _STATE_FILE, state.encode())


@dataclass
class _CopyExtent:
    """The extent of a migration's copy in the topic of copies: from offset `start` to `end`, as far as it was read."""

    start: int
    end: int
    parts: int
    parts_read: set[int] = field(default_factory=set)
    tuples: int = 0


class CopyTopicIndex:
    """Index of the complete copies in the topic of copies and their offsets; it reads every message once."""

    def __init__(self, log: MessageLog, topic: str, tasks: int) -> None:
        self._log, self._topic, self._tasks = log, topic, tasks
        self._next_offsets: dict[int, int] = {}
        self._extents: dict[int, _CopyExtent] = {}

    def complete_copies(self, units: Iterable[int]) -> dict[int, tuple[int, int, int]]:
        """Read new copies of `units`; return the offsets [start, end) and the tuple count of each complete one."""
        extents = self._log.offset_bounds(self._topic)
        for task in sorted({unit % self._tasks for unit in units}):
            low, end = extents[task].low, extents[task].high
            start = max(self._next_offsets.get(task, low), low)
            for message in self._log.fetch(self._topic, task, start, end):
                migration, part, parts, batch = decode_copy_part(message.value)
                extent = self._extents.setdefault(migration, _CopyExtent(message.offset, 0, parts))
                extent.end = message.offset + 1
                if part not in extent.parts_read:
                    extent.parts_read.add(part)
                    extent.tuples += batch.num_rows
            self._next_offsets[task] = end
        return {
            piece: (copy.start, copy.end, copy.tuples)
            for piece, copy in self._extents.items()
            if len(copy.parts_read) == copy.parts
        }


class Rebalancer:
    """Performs one rebalance per call: observes the units' reports and the copies, decides, and writes the result."""

    def __init__(
        self, config: RebalanceConfig, folder: JobFolder, stages: Sequence[Stage], log: MessageLog,
        reports: ReportSource,
    ) -> None:  # fmt: skip
        self._control = config
        self._folder = folder
        self._route, self._join = stages
        self._reports = reports
        self._copies = CopyTopicIndex(log, self._join.feedback, self._join.units)
        self._history: list[Any] = (read_explanation(folder) or {}).get("history", [])
        self._moving_tuples = 0  # of all migrations since none was in progress
        self._written_epoch = 0  # the last epoch written to routing.json

    def rebalance(self) -> bool:
        """Decide once; returns whether migrations are in progress.

        Raises `InvalidRoutingError`, OSError, and the errors of the log.
        """
        routers, tasks = (self._reports.reports(stage.name) for stage in (self._route, self._join))
        if len(routers) < self._route.units or len(tasks) < self._join.units:
            return True  # the first rounds are not completed
        state = read_controller_state(self._folder)
        assert state is not None
        observation = JoinObservation.of_gauges(
            {unit: report.round.gauges for unit, report in routers.items()},
            units_of_gauges(report.round.gauges for report in tasks.values()),
            self._copies.complete_copies(one.migration.giver for one in state.copying) if state.copying else {},
            sum_counts(tasks.values())["pairs"],
            min(report.round.number for report in routers.values()),
        )
        config = replace(self._control, units=requested_units(self._folder, self._control.units))
        decision = decide(state, observation, config, self._route.units)
        next_state = decision.state
        if next_state != state:
            _write_controller_state(self._folder, next_state)
        if next_state.table.epoch != self._written_epoch:  # also an epoch that an earlier call failed to write
            write_json(self._folder.path / ROUTING, next_state.table.as_json())
            self._written_epoch = next_state.table.epoch
        if decision.table is not None:
            self._history.append(
                {"created_at": time.time(), "epoch": decision.table.epoch, "reasons": list(decision.reasons)}
            )
            del self._history[:-_MAX_HISTORY]
        explanation = explain(next_state, observation, config, sum_counts(routers.values())).as_json()
        reasons = list(decision.reasons)
        remaining = sum(one.tuples for one in (*next_state.copying, *next_state.pending))
        self._moving_tuples = max(self._moving_tuples, remaining) if remaining else 0
        write_json(
            self._folder.path / _EXPLANATION_FILE,
            {
                **explanation, "observed_at": time.time(), "reasons": reasons, "history": self._history,
                "moving_tuples": self._moving_tuples, "moved_tuples": self._moving_tuples - remaining,
            },
        )  # fmt: skip
        return bool(next_state.copying or next_state.pending or decision.table)


class RebalanceService(BackgroundService):
    """Rebalances the stages of a join periodically, every `every` seconds."""

    section = "routing"

    def __init__(
        self, config: RebalanceConfig, every: float, folder: JobFolder, stages: Sequence[Stage], cluster: Cluster,
        reports: ReportSource,
    ) -> None:  # fmt: skip
        super().__init__("rebalancer")
        self._control = config
        self._every = every
        self._folder = folder
        self._stages = stages
        self._cluster = cluster
        self._reports = reports

    def status(self) -> dict[str, Any]:
        """Return the imbalance, the number of migrations in progress and the epoch; empty before the first one."""
        explanation = read_explanation(self._folder)
        if explanation is None:
            return {}
        return {
            "imbalance": explanation["imbalance"],
            "migrations": len(explanation["migrations"]),
            "epoch": explanation["epoch"],
        }

    def _work(self) -> None:
        with closing(Kafka(self._cluster)) as log:
            rebalancer, pause = Rebalancer(self._control, self._folder, self._stages, log, self._reports), 0.0
            while not self._stopping.wait(pause):
                is_migrating = False
                with self._trying("rebalancing failed"):
                    is_migrating = rebalancer.rebalance()
                pause = min(_MIGRATING_SECONDS, self._every) if is_migrating else self._every
