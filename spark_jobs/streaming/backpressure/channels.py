"""The channels by their names."""

from __future__ import annotations

from collections.abc import Collection

from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import Control
from springline.spark_jobs.streaming.backpressure.control_topic import ControlTopic
from springline.spark_jobs.streaming.backpressure.zookeeper import ZooKeeper
from springline.spark_jobs.streaming.kafka.cluster import Cluster


def open_channel(control: Control, cluster: Cluster, zookeeper: str, job: str, stages: Collection[str]) -> Channel:
    """One end of a job's channel for these stages; what is not reached is reached later."""
    if control is Control.ZOOKEEPER:
        return ZooKeeper(zookeeper, job, stages)
    return ControlTopic(cluster, job, stages)
