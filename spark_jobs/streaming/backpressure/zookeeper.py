"""Signals over ZooKeeper: the patent's nodes, handlers and queues.

    send queue -> create handler -> /taskmessage/STAGE/m0000000001 -> delete handler -> trigger queue -> receive thread
                                                                                        -> inbox, /taskstate/STAGE

A message is a sequential node below the upstream that it is for, so that each process deletes what is for its own
stages alone. The state of a stage, at `/taskstate`, is what is asked of it, by stage downstream, for whoever watches.
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

from springline.spark_jobs.streaming.backpressure.channel import Threaded
from springline.spark_jobs.streaming.backpressure.signals import InvalidSignalError, Signal, newer

MESSAGES, STATES = "taskmessage", "taskstate"
_SESSION_SECONDS = 4.0
_PAUSE = 0.2  # seconds before the next attempt
_ASK_SECONDS = 1.0  # between two looks that no watch has asked for: one may have been lost with a session
_UNREACHABLE = (KazooException, KazooTimeoutError, OSError)


class ZooKeeper(Threaded):
    """One end of a channel over ZooKeeper at `hosts`, for the stages `stages` of this application, below `/JOB`.

    The send queue is `_out`, the inbox `_in`.
    """

    def __init__(self, hosts: str, job: str, stages: Collection[str]) -> None:
        super().__init__()
        self._root = f"/{job}"
        self._stages = tuple(stages)
        self._trigger_queue: queue.Queue[Signal] = queue.Queue()
        self._look = threading.Event()
        self._asked: dict[tuple[str, str], Signal] = {}
        self._client = KazooClient(
            hosts=hosts,
            timeout=_SESSION_SECONDS,
            connection_retry=KazooRetry(max_tries=-1, delay=_PAUSE, max_delay=1.0),
            logger=_quiet(),
        )
        self._client.add_listener(lambda state: self._look.set())
        self._client.start_async()
        work = {"create": self._create_handler, "delete": self._delete_handler, "receive": self._receive}
        self._start({name: partial(self._again, name, each) for name, each in work.items()})

    @property
    def trouble(self) -> str:
        """What is wrong now, in words; see `Channel`."""
        return super().trouble if self._client.connected else "signals: ZooKeeper is not reached"

    def close(self) -> None:
        """See `Channel`."""
        self._over.set()
        self._look.set()
        self._client.stop()
        super().close()
        self._client.close()

    def _again(self, name: str, work: Callable[[], None]) -> None:
        """One of the handlers, again and again until the end."""
        while not self._over.is_set():
            try:
                work()
                self._troubles[name] = ""
            except _UNREACHABLE as error:
                self._troubles[name] = f"signals: ZooKeeper: {type(error).__name__} {error}"
                self._over.wait(_PAUSE)

    def _create_handler(self) -> None:
        """Make a node of each signal in the send queue."""
        self._wake.wait()
        self._wake.clear()
        left = self._out.take()
        while left and not self._over.is_set():
            signal = left[0]
            try:
                path = f"{self._root}/{MESSAGES}/{signal.upstream}/m"
                self._client.create(path, signal.encode(), sequence=True, makepath=True)
            except _UNREACHABLE:
                self._out.put(left)  # unless newer ones wait by now
                self._wake.set()
                raise
            left.pop(0)

    def _delete_handler(self) -> None:
        """Hand each message to the trigger queue and delete its node, when one is made, and now and then."""
        self._look.wait(_ASK_SECONDS)
        self._look.clear()
        for stage in self._stages if not self._over.is_set() else ():
            folder = f"{self._root}/{MESSAGES}/{stage}"
            self._client.ensure_path(folder)
            for name in sorted(self._client.get_children(folder, watch=lambda event: self._look.set())):
                self._take(f"{folder}/{name}")

    def _take(self, path: str) -> None:
        try:
            content, _ = self._client.get(path)
        except NoNodeError:  # another process has the same stage
            return
        with suppress(InvalidSignalError):  # somebody else's node binds nobody, and must not stay
            self._trigger_queue.put(Signal.decode(content))
        self._client.delete(path)

    def _receive(self) -> None:
        """Hand signals on, and write what is asked of their stage."""
        try:
            signal = self._trigger_queue.get(timeout=_ASK_SECONDS)
        except queue.Empty:
            return
        self._in.put([signal])
        self._asked = newer([*self._asked.values(), signal])
        told = {each.downstream: asdict(each) for each in self._asked.values() if each.upstream == signal.upstream}
        path = f"{self._root}/{STATES}/{signal.upstream}"
        self._client.ensure_path(path)
        self._client.set(path, json.dumps(told).encode())


def _quiet() -> logging.Logger:
    """Kazoo tells of each attempt; what matters is told as `trouble`."""
    logger = logging.getLogger("springline.signals")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
