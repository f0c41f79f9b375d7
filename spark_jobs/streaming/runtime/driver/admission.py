"""How many messages a round may admit: a fixed number of each unit, or what back-pressure leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.runtime.rounds import Plan


class Admitting(Protocol):
    """Asked before each round of a stage is planned, and told afterwards."""

    def admitted(self, waiting: Mapping[int, int], now: float) -> Mapping[int, int]:
        """The messages that the next round may admit, by unit, where so many are there."""

    def planned(self, plan: Plan, now: float) -> None:
        """A round is planned, or run again as it was planned."""


@dataclass(frozen=True)
class Fixed:
    """So many messages of each unit."""

    messages: int

    def admitted(self, waiting: Mapping[int, int], now: float) -> Mapping[int, int]:
        """See `Admitting`."""
        return dict.fromkeys(waiting, self.messages)

    def planned(self, plan: Plan, now: float) -> None:
        """Nothing to remember."""
