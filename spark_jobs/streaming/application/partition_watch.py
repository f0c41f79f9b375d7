"""Looks whether the topic that a job reads has got more partitions since its application made the units for them."""

from __future__ import annotations

from contextlib import closing

from springline.spark_jobs.streaming.errors import TopicGrownError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService

_LOOK_SECONDS = 1.0


class PartitionWatch(BackgroundService):
    """Looks while its context is open; `check` raises `TopicGrownError` when there are more than so many `units`."""

    def __init__(self, topic: str, units: int, cluster: Cluster) -> None:
        super().__init__("partition watch")
        self._topic = topic
        self._units = units
        self._cluster = cluster
        self._now = units

    def check(self) -> None:
        """Raises `TopicGrownError` too."""
        super().check()
        if self._now > self._units:
            raise TopicGrownError(f"{self._topic} has {self._now} units and had {self._units}")

    def _work(self) -> None:
        with closing(Kafka(self._cluster)) as log:
            while not self._over.wait(_LOOK_SECONDS):
                with self._trying("the partitions of its topic are not known"):
                    self._now = log.units(self._topic)
