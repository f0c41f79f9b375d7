"""Configuration of tracking: a job's table `tracking`, the stages and topics that it adds, the files it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from springline.persistence.model.toml_table import Seconds, TomlTable
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import STOP, JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from springline.spark_jobs.streaming.runtime.stage import StageSpec

RING, CLOCK, LOW_WATERMARKS, FULL = "ring.json", "clock.json", "low-watermarks.json", "full"
SPRING, REPLAY, FIRST_PROCESSOR = range(
    3
)  # indices of the stages that send acks: the springs, then the others in their order
_NO_LOW_WATERMARKS: Mapping[str, Any] = {"low_watermarks": {}}
_TRACKING = "springline.spark_jobs.streaming.tracking"
MAX_ACKERS = "tracking.max_ackers"  # the key that says how many units ackers have, and the stages that read from them
_MIN_ROUND_INTERVAL = 0.1  # seconds: completions are known that much later, and ackers have fewer rounds
_Ackers = Annotated[int, Meta(ge=1, le=256)]


class Delivery(StrEnum):
    """The delivery guarantee of a tracked job."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class ForeignTrackingKeys(TomlTable, frozen=True, kw_only=True):
    """Keys of `tracking` in a job that tracks the topology of other programs."""

    ackers: Annotated[_Ackers, Meta(description="ackers at the first start")] = 1
    max_ackers: Annotated[
        _Ackers | None,
        Meta(description="ackers that there can be, which is the number of partitions of their topics; 2, or `ackers` "
                         "if that is more"),
    ] = None  # fmt: skip
    timeout: Annotated[Seconds, Meta(description="seconds after which a root that is not complete has failed")] = 30.0


class SourceTrackingKeys(ForeignTrackingKeys, frozen=True, kw_only=True):
    """Keys of `tracking` in a job whose messages are not sent again."""

    max_attempts: Annotated[
        int, Meta(ge=1, le=60, description="attempts of a root; then it goes to the dead-letter queue")
    ] = 5
    max_in_flight: Annotated[
        int, Meta(ge=1, description="roots in flight in an acker, above which the job reads no new ones")
    ] = 5_000_000


class TrackingKeys(SourceTrackingKeys, frozen=True, kw_only=True):
    """Keys of `tracking` in a job that retries its roots."""

    delivery: Annotated[Delivery, Meta(description="delivery guarantee of a root's rows")] = Delivery.EXACTLY_ONCE


@dataclass(frozen=True)
class TrackingConfig:
    """The tracking configuration of one job's topology.

    In a `foreign` topology, clients name the roots and send them again, and get the outcome of each attempt.
    """

    job: str
    ackers: int = 1
    max_ackers: int = 2
    timeout: float = 30.0
    max_attempts: int = 5
    max_in_flight: int = 5_000_000
    delivery: Delivery = Delivery.EXACTLY_ONCE
    foreign: bool = False

    @staticmethod
    def from_keys(
        job: str, keys: ForeignTrackingKeys | bool, *, delivery: Delivery | None = None, foreign: bool = False
    ) -> TrackingConfig:
        """Return the configuration that a job's keys declare; `True` means the defaults.

        `delivery` is that of jobs whose keys do not choose one. Raises `InvalidJobError`.
        """
        if isinstance(keys, bool):
            keys = TrackingKeys()
        max_ackers = max(keys.ackers, 2) if keys.max_ackers is None else keys.max_ackers
        if max_ackers < keys.ackers:
            raise InvalidJobError(
                f"tracking.max_ackers = {max_ackers}; expected at least the number of ackers, {keys.ackers}"
            )
        config = TrackingConfig(job, keys.ackers, max_ackers, keys.timeout, foreign=foreign)
        if isinstance(keys, SourceTrackingKeys):
            config = replace(config, max_attempts=keys.max_attempts, max_in_flight=keys.max_in_flight)
        if isinstance(keys, TrackingKeys):
            delivery = keys.delivery
        return config if delivery is None else replace(config, delivery=delivery)

    @property
    def attempts(self) -> int:
        """Most attempts of a root."""
        return 1 if self.foreign or self.delivery is Delivery.AT_MOST_ONCE else self.max_attempts

    @property
    def acks(self) -> str:
        """The topic of acks: one partition for each possible acker."""
        return f"{self.job}.acks"

    @property
    def feedback(self) -> str:
        """The topic in which ackers report the roots that are to be sent again."""
        return f"{self.job}.feedback"

    @property
    def acker_stage(self) -> StageSpec:
        """The ackers, as a stage."""
        arguments: dict[str, Any] = {"timeout": self.timeout, "max_attempts": self.attempts}
        if self.foreign:  # its roots arrive individually, with any ids
            arguments |= {"layout": "slots", "outcomes": True}
        return StageSpec(
            "acker", f"{_TRACKING}.acker.acker:Acker", self.acks, self.max_ackers, arguments, stamped=True,
            max_messages_per_round=10_000, feedback=self.feedback, min_round_interval=_MIN_ROUND_INTERVAL,
            broadcast_files={"ring": RING, "clock": CLOCK}, hold_files=(STOP,), parallelism_key=MAX_ACKERS,
        )  # fmt: skip

    def lost_stage(self, source: str, dead: str) -> StageSpec:
        """Return the stage that reports which messages of the source were lost, if none is sent again."""
        return StageSpec(
            "lost", f"{_TRACKING}.replay.message_mode:lost_message_reporter", self.feedback, self.max_ackers,
            {"source": source}, reads_feedback=True,
            acks=self.acks, sender_index=REPLAY, dead_letters=dead, min_round_interval=_MIN_ROUND_INTERVAL,
            broadcast_files={"ring": RING}, hold_files=(STOP,), parallelism_key=MAX_ACKERS,
        )  # fmt: skip

    def prepare(self, folder: JobFolder) -> None:
        """Create the files that rounds name, if they do not exist."""
        initial_files: Mapping[str, Any] = {
            RING: {"max_ackers": self.max_ackers, "epochs": {"1": list(range(self.ackers))}},
            CLOCK: {"paused": True},
            LOW_WATERMARKS: _NO_LOW_WATERMARKS,
        }
        for name, content in initial_files.items():
            if not (folder.path / name).exists():
                write_json(folder.path / name, content)

    def reset_low_watermarks(self, folder: JobFolder) -> None:
        """Reset the low watermarks: after a rewind, later records are not completed."""
        write_json(folder.path / LOW_WATERMARKS, _NO_LOW_WATERMARKS)
