"""The newest reports of the units of a job that runs, or is about to."""

from __future__ import annotations

from collections.abc import Mapping

from springline.spark_jobs.streaming.errors import UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.stage import Stage


class JobReports:
    """Reads the reports of a job's stages by name; a stage whose topic does not exist yet has none."""

    def __init__(self, job: str, servers: str) -> None:
        self._job = job
        self._log = Kafka(Cluster(servers), timeout=10.0)
        self._stages: dict[str, StageReports] = {}

    def reports(self, stage: str) -> Mapping[int, UnitReport]:
        """Return the newest report of each unit of a stage that has one."""
        if stage not in self._stages:
            self._stages[stage] = StageReports(Stage(stage, "", "", job=self._job), self._log)
        try:
            self._stages[stage].follow()
        except UnknownTopicError:
            return {}
        return self._stages[stage].newest

    def close(self) -> None:
        """Close the log."""
        self._log.close()
