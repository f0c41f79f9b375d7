"""Sends OpenLineage events, from a thread of its own; what goes wrong is logged, and holds nobody up."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redacted

_MOST_WAITING = 10_000  # events; beyond them new ones are dropped
_SEND_SECONDS = 5.0
_CLOSE_SECONDS = 5.0  # that a process waits for its last events

logger = logging.getLogger("springline.openlineage")


class Lineage:
    """Takes events while there are so many waiting at most, and sends them one after another."""

    def __init__(self, settings: MonitoringSettings, policy: str = "") -> None:
        from springline.persistence.monitoring.openlineage_events import (
            Events,  # half a second: only where events are wanted
        )

        self.events = Events(settings.openlineage_namespace, policy)
        self._transport = _transport(settings)
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
        if thread.is_alive():
            self._warn(f"{self._waiting.qsize()} events were not sent when the process ended")

    def _send(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._transport.emit(event)
                self._trouble = ""
            except Exception as error:  # whatever it is, the work goes on
                self._warn(f"events are not sent: {type(error).__name__}: {error}")

    def _warn(self, trouble: str) -> None:
        """Once, until something goes well again."""
        if trouble != self._trouble:
            logger.warning("OpenLineage: %s", redacted(trouble))
        self._trouble = trouble


def open_lineage(settings: MonitoringSettings, policy: str = "") -> Lineage | None:
    """Sends to where the settings name; None where they name nothing, or where it cannot be set up, which is logged."""
    if not settings.openlineage:
        return None
    try:
        return Lineage(settings, policy)
    except Exception as error:  # events are no reason not to work
        logger.error("OpenLineage events are not sent: %s: %s", type(error).__name__, redacted(str(error)))
        return None


def _transport(settings: MonitoringSettings) -> Any:
    """A file that grows by a line for each event, or an address that takes them."""
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport

    parts = urlsplit(settings.openlineage)
    if parts.scheme == "file":
        return FileTransport(FileConfig(log_file_path=unquote(parts.path), append=True))
    key = settings.openlineage_key.get_secret_value()
    auth: dict[str, Any] = {"auth": ApiKeyTokenProvider({"api_key": key})} if key else {}
    return HttpTransport(
        HttpConfig(url=settings.openlineage, timeout=_SEND_SECONDS, retry={"total": 1, "backoff_factor": 0.2}, **auth)
    )
