"""Limits the messages that a round admits: a fixed number of each unit, or the limit set by back-pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.runtime.rounds import RoundPlan


class AdmissionLimit(Protocol):
    """Queried before each round of a stage is planned, and notified afterwards."""

    def max_messages(self, lag: Mapping[int, int], now: float) -> Mapping[int, int]:
        """Return the maximum number of messages of the next round, by partition, given the lag of each partition."""

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """Handle a planned round, including one that is planned again unchanged."""


def spread(messages: float, lag: Mapping[int, int]) -> dict[int, int]:
    """Distribute about `messages` messages, at least one, over partitions in proportion to their lag."""
    total = sum(lag.values())
    if messages >= total:
        return dict(lag)
    shares = {partition: messages * size / total for partition, size in lag.items()}
    counts = {partition: int(share) for partition, share in shares.items()}
    remaining = max(int(messages), 1) - sum(counts.values())
    neediest = sorted(shares, key=lambda partition: (counts[partition] - shares[partition], partition))
    for partition in neediest[:remaining]:
        counts[partition] += 1
    return counts


@dataclass(frozen=True)
class FixedAdmission:
    """A fixed number of messages for each of the `units` units of a stage, whatever partitions they are in."""

    messages: int
    units: int = 1

    def max_messages(self, lag: Mapping[int, int], now: float) -> dict[int, int]:
        """See `AdmissionLimit`."""
        limits: dict[int, int] = {}
        for unit in range(self.units):
            own = {partition: size for partition, size in lag.items() if partition % self.units == unit}
            limits |= spread(self.messages, own) if own else {}
        return limits

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """Do nothing."""
