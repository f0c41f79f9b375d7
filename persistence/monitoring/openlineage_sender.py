"""Sends OpenLineage events from a separate thread; errors are logged, and block no caller."""

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
from springline.persistence.text.redaction import redact_secrets

_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_NAMESPACE = "default"  # default of OpenLineage's own clients
_MAX_QUEUED = 10_000  # events; beyond that, new ones are dropped
_CLOSE_TIMEOUT = 5.0  # seconds that a process waits for its last events

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

logger = logging.getLogger("springline.openlineage")


class LineageSender:
    """Queues events up to a limit, and sends them one after another.

    `client` is OpenLineage's own, `namespace` that of jobs and datasets, `policy` the name of the policy;
    `sends_commits`: whether commits are sent too, see `LineageEventBuilder`.
    """

    def __init__(
        self, client: OpenLineageClient, namespace: str, policy: str = "", *, sends_commits: bool = True
    ) -> None:
        from springline.persistence.monitoring.openlineage_events import LineageEventBuilder

        self.events = LineageEventBuilder(namespace, policy, sends_commits)
        self._client = client
        self._queue: queue.Queue[Any] = queue.Queue(_MAX_QUEUED)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._last_error = ""

    def send(self, events: Sequence[Any]) -> None:
        """Queue events to be sent in this order."""
        for event in events:
            try:
                self._queue.put_nowait(event)
            except queue.Full:
                self._warn_once(f"more than {_MAX_QUEUED} events are queued; new events are dropped")
                return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_loop, name="openlineage", daemon=True)
                self._thread.start()

    def on_transition(self, event: Event, dataset: Dataset) -> None:
        """Send the events of a change of state; a listener for `Catalog.subscribe`."""
        self.send(self.events.build_change_events(event, dataset, time.time()))

    def close(self) -> None:
        """Send the queued events, for some seconds at most."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_TIMEOUT)
        thread.join(_CLOSE_TIMEOUT)
        if thread.is_alive() or not self._client.close(_CLOSE_TIMEOUT):
            self._warn_once("the process ended before all events were sent")

    def _send_loop(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._client.emit(event)
                self._last_error = ""
            except Exception as error:  # whatever it is, the work continues
                self._warn_once(f"events are not sent: {type(error).__name__}: {error}")

    def _warn_once(self, message: str) -> None:
        """Log a warning once, until an event is sent successfully."""
        if message != self._last_error:
            logger.warning("OpenLineage: %s", redact_secrets(message))
        self._last_error = message


def open_lineage_sender(policy: str = "", environment: Mapping[str, str] = os.environ) -> LineageSender | None:
    """Open a sender as OpenLineage's own variables configure it; returns None if they are not set, or it fails.

    A failure is logged.
    """
    if not _is_configured(environment):
        return None

    def open_sender() -> LineageSender:
        from openlineage.client import OpenLineageClient  # takes half a second: only if events are sent

        return LineageSender(OpenLineageClient(), environment.get("OPENLINEAGE_NAMESPACE") or _NAMESPACE, policy)

    return open_or_log_error(open_sender)


def open_or_log_error(open_sender: Callable[[], LineageSender]) -> LineageSender | None:
    """Return what `open_sender` opens; None if that fails, which is logged: events must not stop the work."""
    try:
        return open_sender()
    except Exception as error:
        logger.error("OpenLineage events are not sent: %s: %s", type(error).__name__, redact_secrets(str(error)))
        return None


def _is_configured(environment: Mapping[str, str]) -> bool:
    """Whether a variable configures a destination for events, as Airflow's provider reads them."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1", "t"):
        return False
    destination = environment.get("OPENLINEAGE_URL") or environment.get("OPENLINEAGE_CONFIG")
    return bool(destination) or any(value and name.startswith(_TRANSPORT) for name, value in environment.items())
