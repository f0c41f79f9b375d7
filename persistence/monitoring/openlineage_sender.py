"""Sends OpenLineage events, from a thread of its own; what goes wrong is logged, and holds nobody up."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redacted

_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_NAMESPACE = "default"  # that of OpenLineage's own clients
_MOST_WAITING = 10_000  # events; beyond them new ones are dropped
_CLOSE_SECONDS = 5.0  # that a process waits for its last events

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

logger = logging.getLogger("springline.openlineage")


class Lineage:
    """Takes events while there are so many waiting at most, and sends them one after another.

    `client` is OpenLineage's own, `namespace` that of jobs and datasets, `policy` the order of persisting; `commits`:
    whether commits are told too, see `Events`.
    """

    def __init__(self, client: OpenLineageClient, namespace: str, policy: str = "", *, commits: bool = True) -> None:
        from springline.persistence.monitoring.openlineage_events import Events

        self.events = Events(namespace, policy, commits)
        self._client = client
        self._waiting: queue.Queue[Any] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._trouble = ""

    def tell(self, events: Sequence[Any]) -> None:
        """Have events sent, in this order."""
        for event in events:
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self._warn(f"more than {_MOST_WAITING} events wait, and new ones are dropped")
                return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="openlineage", daemon=True)
                self._thread.start()

    def heard(self, event: Event, dataset: Dataset) -> None:
        """Tell of a change of state; to be handed to `Catalog.hear`."""
        self.tell(self.events.of_change(event, dataset, time.time()))

    def close(self) -> None:
        """Send what waits, for some seconds at most."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_CLOSE_SECONDS)
        thread.join(_CLOSE_SECONDS)
        if thread.is_alive() or not self._client.close(_CLOSE_SECONDS):
            self._warn("not all events were sent when the process ended")

    def _send(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._client.emit(event)
                self._trouble = ""
            except Exception as error:  # whatever it is, the work goes on
                self._warn(f"events are not sent: {type(error).__name__}: {error}")

    def _warn(self, trouble: str) -> None:
        """Once, until something goes well again."""
        if trouble != self._trouble:
            logger.warning("OpenLineage: %s", redacted(trouble))
        self._trouble = trouble


def open_lineage(policy: str = "", environment: Mapping[str, str] = os.environ) -> Lineage | None:
    """Sends to where OpenLineage's own variables say; None where they say nothing, or where that cannot be set up.

    The latter is logged.
    """
    if not _is_wanted(environment):
        return None

    def open_client() -> Lineage:
        from openlineage.client import OpenLineageClient  # half a second: only where events are wanted

        return Lineage(OpenLineageClient(), environment.get("OPENLINEAGE_NAMESPACE") or _NAMESPACE, policy)

    return opened_or_none(open_client)


def opened_or_none(open_client: Callable[[], Lineage]) -> Lineage | None:
    """What it opens; None where that fails, which is logged: events are no reason not to work."""
    try:
        return open_client()
    except Exception as error:
        logger.error("OpenLineage events are not sent: %s: %s", type(error).__name__, redacted(str(error)))
        return None


def _is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether a variable names a place for events, as Airflow's provider reads them."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1", "t"):
        return False
    named = environment.get("OPENLINEAGE_URL") or environment.get("OPENLINEAGE_CONFIG")
    return bool(named) or any(value and name.startswith(_TRANSPORT) for name, value in environment.items())
