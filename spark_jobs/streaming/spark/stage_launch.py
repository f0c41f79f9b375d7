"""What the processes of Spark need to run a stage: one encoded value, the option of the stage's query."""

from __future__ import annotations

from dataclasses import dataclass

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.stage import Stage


@dataclass(frozen=True)
class StageLaunch:
    """A stage as it is started in an application.

    Its planner watches files in `folder`, the job's folder on the driver. A task loop has `tasks` tasks and lasts
    `seconds` seconds; with 0 seconds it is one round. A task reads about `round_bytes` in a round at most. With
    `latest`, a job that has not run yet begins with the newest messages.

    Example:
        >>> StageLaunch.decode(launch.encode()).encode() == launch.encode()
    """

    stage: Stage
    cluster: Cluster
    folder: str
    tasks: int
    seconds: float
    round_bytes: int
    latest: bool = False

    def encode(self) -> str:
        """Encode the launch as an option of a Spark query: one line, the same for the same launch."""
        return _LAUNCHES.encode(self).decode()

    @staticmethod
    def decode(text: str) -> StageLaunch:
        """Decode an option, the inverse of `encode`; raises `DecodeError`."""
        return _LAUNCHES.decode(text.encode(), "the option of a Spark query")


_LAUNCHES: Codec[StageLaunch] = Codec(
    StageLaunch,
    2,
    "the launch of a stage",
    "install the same version of Springline on Spark's executors and its driver",
    sort_keys=True,
)
