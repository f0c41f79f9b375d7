"""Watches whether the topic that a job reads has more partitions than at the start of its application."""

from __future__ import annotations

from contextlib import closing

from springline.spark_jobs.streaming.errors import TopicGrownError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService

_POLL_SECONDS = 1.0


class PartitionWatch(BackgroundService):
    """Polls while its context is open; `check` raises `TopicGrownError` if there are more than `units` partitions."""

    def __init__(self, topic: str, units: int, cluster: Cluster) -> None:
        super().__init__("partition watch")
        self._topic = topic
        self._units = units
        self._cluster = cluster
        self._current_units = units

    def check(self) -> None:
        """Raise `TopicGrownError` if the topic has grown, and what the base class raises."""
        super().check()
        if self._current_units > self._units:
            raise TopicGrownError(f"{self._topic} has {self._current_units} partitions, and had {self._units}")

    def _work(self) -> None:
        with closing(Kafka(self._cluster)) as log:
            while not self._stopping.wait(_POLL_SECONDS):
                with self._trying("the partitions of its topic cannot be listed"):
                    self._current_units = log.units(self._topic)
