"""The settings of streams: each has a one-line description and is read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from springline.persistence.private_files import create_private_cache, create_private_folder, default_cache_folder
from springline.persistence.profile import Bytes, JsonObject, ProfiledSettings, project_folder
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.runtime.stage import Stage
    from springline.spark_jobs.streaming.runtime.state_folders import StateFolders


class StreamSettings(ProfiledSettings):
    """The file that declares the jobs, the Kafka cluster, and the Spark master that jobs run on."""

    streams_file: Path | None = Field(
        default=None, description="File that declares the stream jobs; empty: streams.toml here"
    )
    kafka_bootstrap_servers: str = Field(
        default="127.0.0.1:9092", description="Addresses of Kafka's brokers, separated by commas"
    )
    zookeeper: str = Field(
        default="127.0.0.1:2181",
        description="Addresses of ZooKeeper's servers, separated by commas; for jobs with signal_channel = zookeeper",
    )
    kafka_options: JsonObject = Field(
        default_factory=dict, description="Further options of Kafka's clients (librdkafka's names), as a JSON object"
    )
    stream_state_dir: Path | None = Field(
        default=None,
        description="Folder in memory for stream states, on each host that runs workers; empty: in the cache",
    )
    stream_spill_dir: Path | None = Field(
        default=None,
        description="Folder on disk for state segments that are too large for memory; empty: spill in the home",
    )
    stream_spill_bytes: Bytes = Field(
        default=256 << 20,
        ge=0,
        description="State segments of at least so many bytes are spilled to disk; "
        "smaller ones only while memory is nearly full",
    )
    stream_checkpoint_interval: float = Field(
        default=60, ge=0, description="Interval of checkpoints of a stream's states, in seconds; 0: none"
    )
    stream_sink_interval: float = Field(
        default=300,
        ge=0,
        description="Interval at which results are written to datasets (jobs with a sink), in seconds; "
        "0: only at the end",
    )
    stream_master: str = Field(
        default="local[8,4]",
        description="Spark master of a stream's application: local[TASKS,TRIES] or spark://…; all stages' tasks run "
        "at once",
    )
    stream_memory: str = Field(default="1g", description="Java heap of a stream's application")
    stream_round_bytes: Bytes = Field(
        default=64 << 20,
        ge=1,
        description="Bytes of messages that a task reads in a round at most, by the sizes of those before; "
        "it bounds the memory of a task beside its state",
    )
    stream_tasks_per_stage: int = Field(
        default=2, ge=1, description="Tasks per stage: as many as there are cores for it"
    )
    stream_trigger_interval: float = Field(
        default=0.02,
        gt=0,
        le=5,
        description="Minimum interval between rounds of a stage, in seconds: higher values use less "
        "CPU and add latency",
    )
    stream_max_attempts: int = Field(
        default=3,
        ge=0,
        description="Failures of a unit's round, for the same cause or by the end "
        "of its worker, after which the failing "
        "messages are sent to the dead-letter queue; 0: unlimited retries",
    )
    stream_conf: JsonObject = Field(
        default_factory=dict, description="Further settings of a stream's Spark session, as a JSON object"
    )

    @field_validator("streams_file", "stream_state_dir", "stream_spill_dir", mode="before")
    @classmethod
    def _no_path(cls, value: object) -> object:
        return value or None

    @property
    def cluster(self) -> Cluster:
        """The Kafka cluster of the streams."""
        return Cluster(self.kafka_bootstrap_servers, self.kafka_options)

    @property
    def declarations(self) -> Path:
        """The file that declares the jobs."""
        return (self.streams_file or project_folder() / "streams.toml").expanduser().resolve()

    @property
    def state_folder(self) -> Path:
        """The folder of the states of all jobs."""
        return (self.stream_state_dir or default_cache_folder(self.home) / ".streams").expanduser().resolve()

    @property
    def spill_folder(self) -> Path:
        """The folder on disk for runs of states that are too large for memory."""
        return (self.stream_spill_dir or self.home / "spill").expanduser().resolve()

    def state_folders(self, stage: Stage) -> StateFolders:
        """Return the folders of the states of a stage on this host; raises as `check_folder_name` does."""
        from springline.spark_jobs.streaming.runtime.state_folders import StateFolders, check_folder_name  # and Arrow

        subfolder = Path(*map(check_folder_name, (stage.job, stage.name, stage.life)))
        return StateFolders(self.state_folder / subfolder, self.spill_folder / subfolder, self.stream_spill_bytes)

    def make_folders(self) -> None:
        """Create the folders of states on this host, accessible only to their owner."""
        if self.stream_state_dir is None:
            create_private_cache(self.home)
        create_private_folder(self.state_folder)
        create_private_folder(self.spill_folder)

    @property
    def jobs_folder(self) -> Path:
        """The folder with one subfolder per job: registry, heartbeat, checkpoints, log."""
        return self.home / "streams"

    def folders(self) -> list[JobFolder]:
        """Return the folders of all jobs that ever ran here, whether they are still declared or not."""
        return [JobFolder(path) for path in sorted(self.jobs_folder.glob("*")) if path.is_dir()]

    def folder(self, job: str) -> JobFolder:
        """Return a job's folder."""
        return JobFolder(self.jobs_folder / job)
