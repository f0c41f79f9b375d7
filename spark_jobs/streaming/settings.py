"""The settings of streams: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from springline.persistence.platform import default_cache, private_cache
from springline.persistence.private_files import private_folder
from springline.persistence.profile import Bytes, JsonObject, ProfiledSettings, project_folder
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster


class StreamSettings(ProfiledSettings):
    """Where streams are declared, which Kafka carries them, and on which Spark they run."""

    streams: Path | None = Field(
        default=None, description="File that declares the stream jobs; empty: streams.toml here"
    )
    kafka: str = Field(default="127.0.0.1:9092", description="Addresses of Kafka's brokers, separated by commas")
    zookeeper: str = Field(
        default="127.0.0.1:2181",
        description="Addresses of ZooKeeper's servers, separated by commas; for jobs with control = zookeeper",
    )
    kafka_options: JsonObject = Field(
        default_factory=dict, description="Further options of Kafka's clients (librdkafka's names), as a JSON object"
    )
    stream_state: Path | None = Field(
        default=None,
        description="Folder in memory for states of streams, shared by all workers; empty: in the cache",
    )
    stream_spill: Path | None = Field(
        default=None,
        description="Folder on disk for runs of states that are too large for memory; empty: spill in the home",
    )
    stream_spill_bytes: Bytes = Field(
        default=256 << 20,
        ge=0,
        description="Bytes from which on a run of a state lies on disk; smaller ones do while memory is nearly full",
    )
    stream_save: float = Field(
        default=60, ge=0, description="Seconds between two savings of a stream's states as datasets; 0: never"
    )
    stream_keep: float = Field(
        default=300,
        ge=0,
        description="Seconds between two writings of a stream's results as datasets, where its job keeps them; "
        "0: only at its end",
    )
    stream_master: str = Field(
        default="local[8,4]",
        description="Spark master of a stream's application: local[TASKS,TRIES] or spark://…; all stages' tasks run "
        "at once",
    )
    stream_memory: str = Field(default="1g", description="Java heap of a stream's application")
    stream_tasks: int = Field(default=2, ge=1, description="Tasks of a stage: as many as there are cores for it")
    stream_pace: float = Field(
        default=0.02,
        gt=0,
        le=5,
        description="Seconds between two rounds of a stage at least: more take less CPU, and "
        "results come so much later",
    )
    stream_tries: int = Field(
        default=3,
        ge=0,
        description="Times that a round of a unit may fail for the same cause, or end its worker, before those of its "
        "messages that it fails with are put aside, as dead letters; 0: it is tried for ever",
    )
    stream_conf: JsonObject = Field(
        default_factory=dict, description="Further settings of a stream's Spark session, as a JSON object"
    )

    @field_validator("streams", "stream_state", "stream_spill", mode="before")
    @classmethod
    def _no_path(cls, value: object) -> object:
        return value or None

    @property
    def cluster(self) -> Cluster:
        """The Kafka cluster that carries the streams."""
        return Cluster(self.kafka, self.kafka_options)

    @property
    def declarations(self) -> Path:
        """The file that declares the jobs."""
        return (self.streams or project_folder() / "streams.toml").expanduser().resolve()

    @property
    def state_folder(self) -> Path:
        """Where the states of all jobs lie."""
        return (self.stream_state or default_cache(self.home) / ".streams").expanduser().resolve()

    @property
    def spill_folder(self) -> Path:
        """Where those runs of states lie that memory is not for."""
        return (self.stream_spill or self.home / "spill").expanduser().resolve()

    def make_folders(self) -> None:
        """Make what states lie in, for its owner alone."""
        if self.stream_state is None:
            private_cache(self.home)
        private_folder(self.state_folder)
        private_folder(self.spill_folder)

    @property
    def jobs_folder(self) -> Path:
        """Where each job has a folder of its own: registry, heartbeat, checkpoints, log."""
        return self.home / "streams"

    def folders(self) -> list[JobFolder]:
        """Those of all jobs that ever ran here, declared still or not."""
        return [JobFolder(path) for path in sorted(self.jobs_folder.glob("*")) if path.is_dir()]

    def folder(self, job: str) -> JobFolder:
        """A job's folder."""
        return JobFolder(self.jobs_folder / job)
