"""Follows the reports of all stages of a job in a thread, for monitoring and control in an application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.stage import Stage

_TURN_SECONDS = 0.25  # between two looks whether to stop


class ReportFollower(BackgroundService):
    """Follows the reports of `stages`; it is a `ReportSource`."""

    def __init__(self, stages: Sequence[Stage], cluster: Cluster) -> None:
        super().__init__("report-follower")
        self._stages = stages
        self._cluster = cluster
        self._newest: dict[str, Mapping[int, UnitReport]] = {}

    def reports(self, stage: str) -> Mapping[int, UnitReport]:
        """Return the newest report of each unit of a stage that has one."""
        return self._newest.get(stage, {})

    def _work(self) -> None:
        with closing(Kafka(self._cluster)) as log:
            followed = {stage.name: StageReports(stage, log) for stage in self._stages}
            while not self._stopping.is_set():
                with self._trying("reading the reports of units failed"):
                    starts = dict(each.next_place() for each in followed.values())
                    messages = log.follow_topics(starts, _TURN_SECONDS)
                    for stage in self._stages:
                        followed[stage.name].add(messages[stage.reports])
                        if messages[stage.reports] or stage.name not in self._newest:
                            self._newest[stage.name] = dict(followed[stage.name].newest)
