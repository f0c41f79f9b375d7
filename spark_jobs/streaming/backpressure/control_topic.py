"""Signals over a topic of Kafka: the default channel.

A job with stages apart has one control topic of one unit. Applications with stages that ask write to it, those with
stages that are asked read all of it.
Messages are kept for a minute: longer than any lease. Two threads do the work, one a direction, each with connections
of its own, so that neither an admission nor the other direction waits for a broker that is away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from functools import partial

from springline.spark_jobs.streaming.backpressure.channel import Threaded
from springline.spark_jobs.streaming.backpressure.signals import LONGEST_LEASE, InvalidSignalError, Signal
from springline.spark_jobs.streaming.errors import MessagesLostError, StreamError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import Letter

KEPT_SECONDS = 60.0
_PATIENCE = 2.0  # seconds that one attempt waits for the broker
_PAUSE = 0.2  # seconds before the next attempt
_FOLLOW = 0.5  # seconds that a look for new messages lasts, at most


def control_topic(job: str) -> str:
    """The name of a job's control topic."""
    return f"{job}.control"


class ControlTopic(Threaded):
    """One end of a channel over a control topic, for the stages `stages` of this application that are asked."""

    def __init__(self, cluster: Cluster, job: str, stages: Collection[str]) -> None:
        super().__init__()
        self._cluster = cluster
        self._topic = control_topic(job)
        self._stages = frozenset(stages)
        work = {"send": self._sending, **({"receive": self._receiving} if self._stages else {})}
        self._start({name: partial(self._again, name, each) for name, each in work.items()})

    def _again(self, name: str, work: Callable[[Kafka], None]) -> None:
        """Do it with connections of its own until the end, anew after each failure."""
        while not self._over.is_set():
            with closing(Kafka(self._cluster, patience=_PATIENCE)) as log:
                try:
                    log.create({self._topic: 1}, kept_seconds=KEPT_SECONDS)
                    self._troubles[name] = ""
                    work(log)
                except StreamError as error:
                    self._troubles[name] = f"signals: {error}"
            self._over.wait(_PAUSE)

    def _sending(self, log: Kafka) -> None:
        while not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            signals = self._out.take()
            try:
                with log.sending() as sending:
                    for signal in signals:
                        sending.send(Letter(self._topic, 0, signal.encode()))
            except StreamError:
                self._out.put(signals)  # unless newer ones wait by now
                self._wake.set()
                raise

    def _receiving(self, log: Kafka) -> None:
        """From what may still be under a lease on."""
        at = log.offsets_at(self._topic, time.time() - LONGEST_LEASE)[0]
        while not self._over.is_set():
            try:
                messages = log.follow(self._topic, 0, at, _FOLLOW)
            except MessagesLostError:
                at = log.extents(self._topic)[0].low
                continue
            for message in messages:
                at = message.offset + 1
                with suppress(InvalidSignalError):  # somebody else's message binds nobody
                    signal = Signal.decode(bytes(message.value))
                    if signal.upstream in self._stages:
                        self._in.put([signal])
