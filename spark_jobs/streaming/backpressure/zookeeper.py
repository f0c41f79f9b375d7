"""Signals over ZooKeeper: the patent's nodes, handlers and queues.

    send queue -> create handler -> /taskmessage/STAGE/m0000000001 -> delete handler -> trigger queue -> receive thread
                                                                                        -> inbox, /taskstate/STAGE

A message is a sequential node below its upstream, so that each process deletes only messages for its own stages. The
state of a stage, at `/taskstate`, holds the signals to it by downstream stage, for monitoring.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from springline.spark_jobs.streaming.backpressure.channel import ThreadedChannel
from springline.spark_jobs.streaming.backpressure.signals import InvalidSignalError, Signal, newest_by_pair

MESSAGES, STATES = "taskmessage", "taskstate"
_SESSION_SECONDS = 4.0
_RETRY_SECONDS = 0.2  # seconds before the next attempt
_POLL_SECONDS = 1.0  # between two polls without a watch event, which may be lost with a session
_UNREACHABLE = (KazooException, KazooTimeoutError, OSError)


class ZooKeeperChannel(ThreadedChannel):
    """One end of a channel over ZooKeeper at `hosts`, for the stages `stages` of this application, below `/JOB`.

    The send queue is `_outgoing`, the inbox `_incoming`.
    """

    def __init__(self, hosts: str, job: str, stages: Collection[str]) -> None:
        super().__init__()
        self._root = f"/{job}"
        self._stages = tuple(stages)
        self._trigger_queue: queue.Queue[Signal] = queue.Queue()
        self._messages_changed = threading.Event()
        self._newest: dict[tuple[str, str], Signal] = {}
        self._client = KazooClient(
            hosts=hosts,
            timeout=_SESSION_SECONDS,
            connection_retry=KazooRetry(max_tries=-1, delay=_RETRY_SECONDS, max_delay=1.0),
            logger=_quiet_logger(),
        )
        self._client.add_listener(lambda state: self._messages_changed.set())
        self._client.start_async()
        work = {"create": self._create_handler, "delete": self._delete_handler, "receive": self._receive}
        self._start({name: partial(self._retry_until_closed, name, each) for name, each in work.items()})

    @property
    def last_error(self) -> str:
        """Description of the current error; see `Channel`."""
        return super().last_error if self._client.connected else "signals: ZooKeeper is unreachable"

    def close(self) -> None:
        """See `Channel`."""
        self._over.set()
        self._messages_changed.set()
        self._client.stop()
        super().close()
        self._client.close()

    def _retry_until_closed(self, name: str, work: Callable[[], None]) -> None:
        """Run one of the handlers repeatedly until the channel is closed."""
        while not self._over.is_set():
            try:
                work()
                self._errors[name] = ""
            except _UNREACHABLE as error:
                self._errors[name] = f"signals: ZooKeeper: {type(error).__name__} {error}"
                self._over.wait(_RETRY_SECONDS)

    def _create_handler(self) -> None:
        """Create a node for each signal in the send queue."""
        self._wake.wait()
        self._wake.clear()
        unsent = self._outgoing.take()
        while unsent and not self._over.is_set():
            signal = unsent[0]
            try:
                path = f"{self._root}/{MESSAGES}/{signal.upstream}/m"
                self._client.create(path, signal.encode(), sequence=True, makepath=True)
            except _UNREACHABLE:
                self._outgoing.put(unsent)  # unless newer ones are queued
                self._wake.set()
                raise
            unsent.pop(0)

    def _delete_handler(self) -> None:
        """Move each message to the trigger queue and delete its node, on a watch event and periodically."""
        self._messages_changed.wait(_POLL_SECONDS)
        self._messages_changed.clear()
        for stage in self._stages if not self._over.is_set() else ():
            folder = f"{self._root}/{MESSAGES}/{stage}"
            self._client.ensure_path(folder)
            for name in sorted(self._client.get_children(folder, watch=lambda event: self._messages_changed.set())):
                self._take_message(f"{folder}/{name}")

    def _take_message(self, path: str) -> None:
        try:
            content, _ = self._client.get(path)
        except NoNodeError:  # another process has the same stage
            return
        with suppress(InvalidSignalError):  # ignore nodes of other programs, but delete them
            self._trigger_queue.put(Signal.decode(content))
        self._client.delete(path)

    def _receive(self) -> None:
        """Move a signal to the inbox, and write the signals of its upstream to the upstream's state node."""
        try:
            signal = self._trigger_queue.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return
        self._incoming.put([signal])
        self._newest = newest_by_pair([*self._newest.values(), signal])
        stage_signals = {
            each.downstream: asdict(each) for each in self._newest.values() if each.upstream == signal.upstream
        }
        path = f"{self._root}/{STATES}/{signal.upstream}"
        self._client.ensure_path(path)
        self._client.set(path, json.dumps(stage_signals).encode())


def _quiet_logger() -> logging.Logger:
    """Return a silent logger, since Kazoo logs each attempt; errors are reported by `last_error`."""
    logger = logging.getLogger("springline.signals")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
