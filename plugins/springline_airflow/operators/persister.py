"""The persister as an Airflow task: started once per batch of work, deferred without a process while there is none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator

from springline.airflow.platform_context import platform_session
from springline.airflow.triggers.queue import QueueTrigger
from springline.persistence.metrics_collector import GaugeCollector
from springline.persistence.platform import Platform

OpenPlatform = Callable[[str], AbstractContextManager[Platform]]

_SAMPLING_SECONDS = 10.0  # between two checks whether this minute has its risk sample


class PersisterOperator(BaseOperator):
    """Persists until the queue is empty, waits `linger` seconds for more, then defers; ends after `lifetime` seconds.

    It also puts what is persisted into its tables. While it lingers it proves operations that are only declared
    idempotent; new work in the queue ends a proof. A continuously scheduled DAG restarts it, so that its log stays
    readable in size. It runs at the low priority `niceness`, so that it does not slow the tasks whose datasets it
    persists.
    """

    def __init__(
        self,
        *,
        lifetime: float = 3600,
        linger: float = 10,
        poll: float = 2,
        niceness: int = 10,
        open_platform: OpenPlatform = platform_session,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lifetime = lifetime
        self.linger = linger
        self.poll = poll
        self.niceness = niceness
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Persist what is queued now."""
        return self._persist(time.time() + self.lifetime, 0)

    def resume(self, context: Any, event: dict[str, Any], until: float, so_far: int) -> dict[str, Any]:
        """Continue after the trigger has fired."""
        self.log.info("Resumed: %s (%s queued).", event["reason"], event["depth"])
        return self._persist(until, so_far)

    def _persist(self, until: float, so_far: int) -> dict[str, Any]:
        os.setpriority(os.PRIO_PROCESS, 0, max(self.niceness, os.getpriority(os.PRIO_PROCESS, 0)))
        with self._open_platform("persister task") as platform:
            persisted = so_far + self._drain(platform, until)
            left = platform.claims.depth()
        if time.time() >= until:
            return {"persisted": persisted, "remaining": left}
        self.defer(
            trigger=QueueTrigger(until=until, poll=self.poll),
            method_name=self.resume.__name__,
            kwargs={"until": until, "so_far": persisted},
        )
        raise AssertionError("deferring does not return")

    def _drain(self, platform: Platform, until: float) -> int:
        """Persist until nothing has been queued for `linger` seconds."""
        persisted = 0
        idle_since = time.monotonic()
        sampled_at = -_SAMPLING_SECONDS
        gauges = GaugeCollector(platform)
        while time.time() < until and time.monotonic() - idle_since < self.linger:
            if time.monotonic() - sampled_at >= _SAMPLING_SECONDS:
                sampled_at = time.monotonic()
                platform.catalog.sample_risk(find_unavailable_reason=platform.watch.unavailable_reason)
            gauges.collect()
            outcome = platform.persister.step()
            if outcome is None:
                if platform.table_writer.step() is None and platform.prover.step() is None:
                    platform.persister.sleep(0.5)
                else:
                    idle_since = time.monotonic()
                continue
            if outcome.error:
                self.log.warning("%s: %s", outcome.ref, outcome.error)
                continue
            persisted += 1
            idle_since = time.monotonic()
            self.log.info(
                "%s persisted by %s: %s predicted, %.2f s actual",
                outcome.ref,
                outcome.method,
                "nothing" if outcome.predicted_seconds is None else f"{outcome.predicted_seconds:.2f} s",
                outcome.actual_seconds,
            )
        return persisted


class MaintenanceOperator(BaseOperator):
    """Runs one action that keeps catalog and stores consistent, or evaluates alerts: see `maintenance`."""

    def __init__(self, *, action: str, open_platform: OpenPlatform = platform_session, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the action, and return its report."""
        from springline.airflow.operators.maintenance import ACTIONS

        with self._open_platform(f"maintenance task, {self.action}") as platform:
            report = ACTIONS[self.action](platform)
            platform.catalog.sample_risk(find_unavailable_reason=platform.watch.unavailable_reason)
        self.log.info("%s: %s", self.action, report)
        return report
