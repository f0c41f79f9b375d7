"""The persister as an Airflow task: one start for each batch of work, and no process while there is none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator

from springline.airflow.platform_context import opened
from springline.airflow.triggers.queue import QueueTrigger
from springline.persistence.metrics_collector import Gauges

OpenPlatform = Callable[[str], AbstractContextManager[Any]]

_SAMPLING_SECONDS = 10.0  # between two looks whether this minute has its sample of the risk


class PersisterOperator(BaseOperator):
    """Persists until the queue is empty, lingers for more, then waits as a trigger; ends after `lifetime` seconds.

    While it lingers it proves operations that are only declared idempotent; what comes to be persisted ends a proof.
    A DAG that is scheduled continuously begins it again, so that its log stays of a readable size. It runs
    at the low priority `niceness`, so that it does not slow the tasks whose datasets it persists.
    """

    def __init__(
        self,
        *,
        lifetime: float = 3600,
        linger: float = 10,
        poll: float = 2,
        niceness: int = 10,
        open_platform: OpenPlatform = opened,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lifetime = lifetime
        self.linger = linger
        self.poll = poll
        self.niceness = niceness
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Persist what waits now."""
        return self._persist(time.time() + self.lifetime, 0)

    def resume(self, context: Any, event: dict[str, Any], until: float, so_far: int) -> dict[str, Any]:
        """Go on once the trigger has fired."""
        self.log.info("Begun again: %s (%s want persisting).", event["why"], event["depth"])
        return self._persist(until, so_far)

    def _persist(self, until: float, so_far: int) -> dict[str, Any]:
        os.setpriority(os.PRIO_PROCESS, 0, max(self.niceness, os.getpriority(os.PRIO_PROCESS, 0)))
        with self._open_platform("persister task") as platform:
            persisted = so_far + self._drain(platform, until)
            left = platform.claims.depth()
        if time.time() >= until:
            return {"persisted": persisted, "left": left}
        self.defer(
            trigger=QueueTrigger(until=until, poll=self.poll),
            method_name=self.resume.__name__,
            kwargs={"until": until, "so_far": persisted},
        )
        raise AssertionError("deferring does not return")

    def _drain(self, platform: Any, until: float) -> int:
        """Persist until nothing has come for `linger` seconds."""
        persisted = 0
        idle_since = time.monotonic()
        looked_at = -_SAMPLING_SECONDS
        gauges = Gauges(platform)
        while time.time() < until and time.monotonic() - idle_since < self.linger:
            if time.monotonic() - looked_at >= _SAMPLING_SECONDS:
                looked_at = time.monotonic()
                platform.catalog.sample_risk(why_away=platform.watch.why_away)
            gauges.tell()
            outcome = platform.persister.step()
            if outcome is None:
                if platform.prover.step() is None:
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
                "%s persisted by %s: predicted %s, took %.2f s",
                outcome.ref,
                outcome.method,
                "nothing" if outcome.predicted_seconds is None else f"{outcome.predicted_seconds:.2f} s",
                outcome.actual_seconds,
            )
        return persisted


class MaintenanceOperator(BaseOperator):
    """One of the things that keep catalog and stores true to each other, or alert: see `upkeep`."""

    def __init__(self, *, action: str, open_platform: OpenPlatform = opened, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Do it, and say what was done."""
        from springline.airflow.operators.maintenance import ACTIONS

        with self._open_platform(f"maintenance task, {self.action}") as platform:
            report = ACTIONS[self.action](platform)
            platform.catalog.sample_risk(why_away=platform.watch.why_away)
        self.log.info("%s: %s", self.action, report)
        return report
