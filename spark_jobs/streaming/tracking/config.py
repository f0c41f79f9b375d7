"""How a topology is tracked: what a job's table says of it, the stages and topics that it adds, the files it looks at.

[words.tracking]           # all of it may be left out
ackers = 1                 # how many there are at first
room = 2                   # how many there can be: partitions of the topic of acks
timeout = 30.0             # seconds until a root that is not through is sent again
tries = 5                  # attempts in all; then it is given up, and goes to the dead letters
in_flight = 5000000        # roots under way, at most: then the source waits
delivery = "exactly-once"  # or "at-least-once": nothing is lost, and what is sent again may be counted again;
                           # or "at-most-once": nothing is sent again, and what was lost is told
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import STOP, JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from springline.spark_jobs.streaming.runtime.stage import StageSpec

RING, PACE, LOW, FULL = "ring.json", "pace.json", "low.json", "full"
SPRING, AGAIN, FIRST = range(3)  # places of the stages that send acks: the springs, then the others in their order
_NONE_THROUGH: Mapping[str, Any] = {"lows": {}}
_TRACKING = "springline.spark_jobs.streaming.tracking"
_KEYS = ("ackers", "room", "timeout", "tries", "in_flight", "delivery")
_PACE = 0.1  # seconds: a root is known to be complete so much later, and ackers have fewer rounds
_FOREIGN_KEYS = ("ackers", "room", "timeout")
_MOST_ACKERS, _MOST_TRIES = 256, 60


class Delivery(StrEnum):
    """What is promised of each record's effect."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True)
class Tracked:
    """The tracking of one job's topology.

    Of a `foreign` one, others name the roots, send them again, and are told what became of each attempt.
    """

    job: str
    ackers: int = 1
    room: int = 2
    timeout: float = 30.0
    tries: int = 5
    in_flight: int = 5_000_000
    delivery: Delivery = Delivery.EXACTLY_ONCE
    foreign: bool = False

    @staticmethod
    def declared(told: Declared, usual: Delivery = Delivery.EXACTLY_ONCE, *, foreign: bool = False) -> Tracked:
        """What a job's table says, with the delivery that such jobs usually have.

        Raises `InvalidJobError`, also where it says of a foreign one what is not ours to say.
        """
        known = _FOREIGN_KEYS if foreign else _KEYS
        table = told.table.get("tracking", {})
        where = f"{told.where}, [{told.name}.tracking]"
        if not isinstance(table, dict):
            raise InvalidJobError(f"{where}: it must be a table")
        if odd := sorted(set(table) - set(known)):
            raise InvalidJobError(f"{where}: {', '.join(odd)} means nothing here; known: {', '.join(known)}")
        own = Declared(where, told.name, table)
        ackers = own.number("ackers", 1, most=_MOST_ACKERS)
        room = own.number("room", max(ackers, 2), most=_MOST_ACKERS)
        if room < ackers:
            raise InvalidJobError(
                f"{where}: room = {room}, and there are {ackers} ackers; room is how many there can be"
            )
        words = [usual.value, *(each.value for each in Delivery if each is not usual)]
        delivery = Delivery(own.choice("delivery", words))
        return Tracked(
            told.name, ackers, room, own.seconds("timeout", 30.0), own.number("tries", 5, most=_MOST_TRIES),
            own.number("in_flight", 5_000_000), delivery, foreign,
        )  # fmt: skip

    @property
    def attempts(self) -> int:
        """How often a root is sent at most."""
        return 1 if self.foreign or self.delivery is Delivery.AT_MOST_ONCE else self.tries

    @property
    def acks(self) -> str:
        """The topic of acks: a unit for each acker that there can be."""
        return f"{self.job}.acks"

    @property
    def sized(self) -> Mapping[str, str]:
        """The setting that tells how many units the topic of acks has."""
        return {self.acks: "tracking.room"}

    @property
    def told(self) -> str:
        """The topic in which ackers tell what is to be sent again."""
        return f"{self.job}.told"

    @property
    def acker(self) -> StageSpec:
        """The ackers, as a stage."""
        arguments: dict[str, Any] = {"timeout": self.timeout, "tries": self.attempts}
        if self.foreign:  # whose roots come one by one, under any ids
            arguments |= {"layout": "slots", "outcomes": True}
        return StageSpec(
            "acker", f"{_TRACKING}.acker.acker:Acker", self.acks, self.room, arguments, stamped=True,
            admitted=10_000, told=self.told, pace=_PACE, contents={"ring": RING, "pace": PACE}, holds=(STOP,),
        )  # fmt: skip

    def lost(self, source: str, dead: str) -> StageSpec:
        """What tells which messages of the source were lost, where none is sent again."""
        return StageSpec(
            "lost", f"{_TRACKING}.replay.message_mode:lost", self.told, self.room, {"source": source}, own=True,
            acks=self.acks, place=AGAIN, dead=dead, pace=_PACE, contents={"ring": RING}, holds=(STOP,),
        )  # fmt: skip

    def prepare(self, folder: JobFolder) -> None:
        """Make the files that rounds name, where they are not there."""
        first: Mapping[str, Any] = {
            RING: {"room": self.room, "epochs": {"1": list(range(self.ackers))}},
            PACE: {"still": True},
            LOW: _NONE_THROUGH,
        }
        for name, content in first.items():
            if not (folder.path / name).exists():
                write_json(folder.path / name, content)

    def begin_anew(self, folder: JobFolder) -> None:
        """Forget how far the job was: it goes back in time, and what lies ahead then is not through."""
        write_json(folder.path / LOW, _NONE_THROUGH)
