"""Signals over a Kafka topic: the default channel.

A job with a separate application has one control topic with one partition. Applications whose stages send signals
write to it, those whose stages receive signals read all of it. Messages are kept for a minute, longer than any lease.
Two threads, one per direction, each have their own connections, so that neither an admission nor the other direction
waits for an unavailable broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from functools import partial

from springline.spark_jobs.streaming.backpressure.channel import ThreadedChannel
from springline.spark_jobs.streaming.backpressure.signals import LONGEST_LEASE, InvalidSignalError, Signal
from springline.spark_jobs.streaming.errors import MessagesLostError, StreamError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord, TopicSpec

RETENTION_SECONDS = 60.0
_BROKER_TIMEOUT = 2.0  # seconds that one attempt waits for the broker
_RETRY_SECONDS = 0.2  # seconds before the next attempt
_POLL_SECONDS = 0.5  # maximum seconds of one poll for new messages


def control_topic(job: str) -> str:
    """Return the name of a job's control topic."""
    return f"{job}.control"


class ControlTopic(ThreadedChannel):
    """One end of a channel over a control topic, for the receiving stages `stages` of this application."""

    def __init__(self, cluster: Cluster, job: str, stages: Collection[str]) -> None:
        super().__init__()
        self._cluster = cluster
        self._topic = control_topic(job)
        self._stages = frozenset(stages)
        work = {"send": self._send_signals, **({"receive": self._receive_signals} if self._stages else {})}
        self._start({name: partial(self._retry_until_closed, name, each) for name, each in work.items()})

    def _retry_until_closed(self, name: str, work: Callable[[Kafka], None]) -> None:
        """Run `work` with its own connections until the channel is closed, and retry after each failure."""
        while not self._over.is_set():
            with closing(Kafka(self._cluster, timeout=_BROKER_TIMEOUT)) as log:
                try:
                    log.create([TopicSpec(self._topic, retention_seconds=RETENTION_SECONDS)])
                    self._errors[name] = ""
                    work(log)
                except StreamError as error:
                    self._errors[name] = f"signals: {error}"
            self._over.wait(_RETRY_SECONDS)

    def _send_signals(self, log: Kafka) -> None:
        while not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            signals = self._outgoing.take()
            try:
                with log.record_sender() as producer:
                    for signal in signals:
                        producer.send(OutgoingRecord(self._topic, 0, signal.encode()))
            except StreamError:
                self._outgoing.put(signals)  # unless newer ones are queued
                self._wake.set()
                raise

    def _receive_signals(self, log: Kafka) -> None:
        """Read from the oldest message whose lease may not have ended."""
        next_offset = log.offsets_for_time(self._topic, time.time() - LONGEST_LEASE)[0]
        while not self._over.is_set():
            try:
                messages = log.follow(self._topic, 0, next_offset, _POLL_SECONDS)
            except MessagesLostError:
                next_offset = log.offset_bounds(self._topic)[0].low
                continue
            for message in messages:
                next_offset = message.offset + 1
                with suppress(InvalidSignalError):  # ignore messages of other programs
                    signal = Signal.decode(bytes(message.value))
                    if signal.upstream in self._stages:
                        self._incoming.put([signal])
