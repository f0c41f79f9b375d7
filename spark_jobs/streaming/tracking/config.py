"""Configuration of tracking: a job's table `tracking`, the stages and topics that it adds, the files it uses.

[words.tracking]           # optional, as a whole or in part
ackers = 1                 # number of ackers at first
max_ackers = 2             # most ackers: partitions of the topic of acks
timeout = 30.0             # seconds until a root that is not completed is sent again
max_attempts = 5           # attempts in all; then it has failed, and goes to the dead-letter queue
max_in_flight = 5000000    # most roots in flight: beyond that the source waits
delivery = "exactly-once"  # or "at-least-once": nothing is lost, but a retried record may be counted again;
                           # or "at-most-once": nothing is sent again, and losses are reported
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from springline.spark_jobs.streaming.config import JobTable
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
_KEYS = ("ackers", "max_ackers", "timeout", "max_attempts", "max_in_flight", "delivery")
_MIN_ROUND_INTERVAL = 0.1  # seconds: completions are known that much later, and ackers have fewer rounds
_FOREIGN_KEYS = ("ackers", "max_ackers", "timeout")
_MOST_ACKERS, _MOST_TRIES = 256, 60


class Delivery(StrEnum):
    """The delivery guarantee of a tracked job."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


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
    def from_table(
        job_table: JobTable, default_delivery: Delivery = Delivery.EXACTLY_ONCE, *, foreign: bool = False
    ) -> TrackingConfig:
        """Return the configuration of a job's table; `default_delivery` is the default of such jobs.

        Raises `InvalidJobError`, also for keys that a foreign topology does not have.
        """
        allowed_keys = _FOREIGN_KEYS if foreign else _KEYS
        table = job_table.table.get("tracking", {})
        where = f"{job_table.where}, [{job_table.name}.tracking]"
        if not isinstance(table, dict):
            raise InvalidJobError(f"{where}: it must be a table")
        if odd := sorted(set(table) - set(allowed_keys)):
            raise InvalidJobError(f"{where}: {', '.join(odd)} means nothing here; known: {', '.join(allowed_keys)}")
        own = JobTable(where, job_table.name, table)
        ackers = own.number("ackers", 1, most=_MOST_ACKERS)
        max_ackers = own.number("max_ackers", max(ackers, 2), most=_MOST_ACKERS)
        if max_ackers < ackers:
            raise InvalidJobError(
                f"{where}: max_ackers = {max_ackers}, and there are {ackers} "
                f"ackers; max_ackers is how many there can be"
            )
        choices = [default_delivery.value, *(each.value for each in Delivery if each is not default_delivery)]
        delivery = Delivery(own.choice("delivery", choices))
        return TrackingConfig(
            job_table.name, ackers, max_ackers, own.seconds("timeout", 30.0),
            own.number("max_attempts", 5, most=_MOST_TRIES),
            own.number("max_in_flight", 5_000_000), delivery, foreign,
        )  # fmt: skip

    @property
    def attempts(self) -> int:
        """Most attempts of a root."""
        return 1 if self.foreign or self.delivery is Delivery.AT_MOST_ONCE else self.max_attempts

    @property
    def acks(self) -> str:
        """The topic of acks: one partition for each possible acker."""
        return f"{self.job}.acks"

    @property
    def parallelism_settings(self) -> Mapping[str, str]:
        """The setting that determines the number of partitions of the topic of acks."""
        return {self.acks: "tracking.max_ackers"}

    @property
    def feedback(self) -> str:
        """The topic in which ackers report the roots that are to be sent again."""
        return f"{self.job}.told"

    @property
    def acker_stage(self) -> StageSpec:
        """The ackers, as a stage."""
        arguments: dict[str, Any] = {"timeout": self.timeout, "tries": self.attempts}
        if self.foreign:  # its roots arrive individually, with any ids
            arguments |= {"layout": "slots", "outcomes": True}
        return StageSpec(
            "acker", f"{_TRACKING}.acker.acker:Acker", self.acks, self.max_ackers, arguments, stamped=True,
            max_messages_per_round=10_000, feedback=self.feedback, min_round_interval=_MIN_ROUND_INTERVAL,
            broadcast_files={"ring": RING, "pace": CLOCK}, hold_files=(STOP,),
        )  # fmt: skip

    def lost_stage(self, source: str, dead: str) -> StageSpec:
        """Return the stage that reports which messages of the source were lost, if none is sent again."""
        return StageSpec(
            "lost", f"{_TRACKING}.replay.message_mode:lost_message_reporter", self.feedback, self.max_ackers,
            {"source": source}, reads_feedback=True,
            acks=self.acks, sender_index=REPLAY, dead_letters=dead, min_round_interval=_MIN_ROUND_INTERVAL,
            broadcast_files={"ring": RING}, hold_files=(STOP,),
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
