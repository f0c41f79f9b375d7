"""Limits the messages that a round admits: a fixed number per unit, or the limit set by back-pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.runtime.rounds import RoundPlan


class AdmissionLimit(Protocol):
    """Queried before each round of a stage is planned, and notified afterwards."""

    def max_messages(self, lag: Mapping[int, int], now: float) -> Mapping[int, int]:
        """Return the maximum number of messages of the next round, by unit, given the lag of each unit."""

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """Handle a planned round, including one that is planned again unchanged."""


@dataclass(frozen=True)
class FixedAdmission:
    """A fixed number of messages per unit."""

    messages: int

    def max_messages(self, lag: Mapping[int, int], now: float) -> Mapping[int, int]:
        """See `AdmissionLimit`."""
        return dict.fromkeys(lag, self.messages)

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """Do nothing."""
