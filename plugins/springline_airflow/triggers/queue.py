"""Waits in the triggerer until a generation is queued for persisting, so that no task runs while the queue is empty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from springline.airflow.platform_context import Queue, open_queue


class QueueTrigger(BaseTrigger):
    """Fires once a generation can be persisted now, or at `until` (seconds since 1970).

    It checks every `poll` seconds, first after `settle` seconds: a task that resumes before Airflow's scheduler has
    noticed that its process ended is taken for a failed one (apache/airflow issues 66374, 67287, 72716). It also fires
    if queued generations cannot be claimed for `overdue` seconds (for example because their worker died): a persister
    takes back such claims.
    """

    def __init__(
        self,
        until: float,
        poll: float = 2.0,
        settle: float = 10.0,
        overdue: float = 60.0,
        open_queue: Callable[[], Queue] = open_queue,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.until = until
        self.poll = poll
        self.settle = settle
        self.overdue = overdue
        self._open = open_queue

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates this trigger."""
        kwargs = {"until": self.until, "poll": self.poll, "settle": self.settle, "overdue": self.overdue}
        return f"{QueueTrigger.__module__}.{QueueTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check the queue until there is something to do."""
        await asyncio.sleep(self.settle)
        queue = await asyncio.to_thread(self._open)
        try:
            yield TriggerEvent(await self._wait(queue))  # type: ignore[no-untyped-call]
        finally:
            await asyncio.to_thread(queue.close)

    async def _wait(self, queue: Queue) -> dict[str, Any]:
        stuck_since: float | None = None
        while time.time() < self.until:
            status = await asyncio.to_thread(queue.read_status)
            if status.claimable:
                return {"depth": status.depth, "reason": "a dataset can be persisted, or put into a table"}
            now = time.monotonic()
            stuck_since = None if not status.depth else stuck_since or now
            if stuck_since is not None and now - stuck_since >= self.overdue:
                return {"depth": status.depth, "reason": f"no progress for {self.overdue:.0f} s"}
            await asyncio.sleep(self.poll)
        return {"depth": 0, "reason": "the maximum wait has passed"}
