"""Waits, in the triggerer, until something wants persisting, so that no task runs while the queue is empty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from springline.airflow.platform_context import Queue, open_queue


class QueueTrigger(BaseTrigger):
    """Fires once a generation can be persisted now, or at `until` (seconds since 1970).

    It looks every `poll` seconds, first after `settle` seconds: a task that goes on before Airflow's scheduler has
    heard that its process ended is taken for a failed one (apache/airflow issues 66374, 67287, 72716). What wants
    persisting but cannot be claimed for `overdue` seconds (its worker died, say) fires it too: a persister takes
    such claims back.
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
        """How Airflow makes this trigger again."""
        kwargs = {"until": self.until, "poll": self.poll, "settle": self.settle, "overdue": self.overdue}
        return f"{QueueTrigger.__module__}.{QueueTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to do."""
        await asyncio.sleep(self.settle)
        queue = await asyncio.to_thread(self._open)
        try:
            yield TriggerEvent(await self._wait(queue))  # type: ignore[no-untyped-call]
        finally:
            await asyncio.to_thread(queue.close)

    async def _wait(self, queue: Queue) -> dict[str, Any]:
        stuck_since: float | None = None
        while time.time() < self.until:
            look = await asyncio.to_thread(queue.look)
            if look.claimable:
                return {"depth": look.depth, "why": "something can be persisted"}
            now = time.monotonic()
            stuck_since = None if not look.depth else stuck_since or now
            if stuck_since is not None and now - stuck_since >= self.overdue:
                return {"depth": look.depth, "why": f"nothing moved for {self.overdue:.0f} s"}
            await asyncio.sleep(self.poll)
        return {"depth": 0, "why": "the time is up"}
