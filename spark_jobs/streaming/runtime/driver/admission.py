"""Limits the messages that a round admits: by number and size, or by the limit that back-pressure sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan

_SAMPLES = 8  # sizes of messages that are remembered


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


class SizeLimit:
    """Limits a round to about `round_bytes` bytes, by the sizes of the messages that units have reported.

    As long as no size is known, a message may be as large as Kafka takes it. Of the newest rounds the one with the
    largest messages counts.
    """

    def __init__(self, round_bytes: int) -> None:
        self._round_bytes = round_bytes
        self._last: dict[int, UnitReport] = {}
        self._sizes: deque[float] = deque(maxlen=_SAMPLES)

    def apply(
        self, max_messages: Mapping[int, int], lag: Mapping[int, int], reports: Iterable[UnitReport]
    ) -> Mapping[int, int]:
        """Return the maximum number of messages by partition, given that without this limit, and the newest reports."""
        self._measure(reports)
        size = max(self._sizes, default=float(MAX_RECORD_BYTES))
        requested = {partition: min(many, lag.get(partition, 0)) for partition, many in max_messages.items()}
        fitting = max(self._round_bytes / max(size, 1.0), 1.0)
        return max_messages if sum(requested.values()) <= fitting else spread(fitting, requested)

    def _measure(self, reports: Iterable[UnitReport]) -> None:
        """Measure what units have read since their last report; a unit or partition that is new begins anywhere."""
        read = offsets = 0
        before, self._last = self._last, {report.unit: report for report in reports}
        for unit, report in self._last.items():
            last, own = before.get(unit), report.round.offsets
            if last is not None and last.round.offsets.keys() == own.keys():
                read += report.totals.flow.read_bytes - last.totals.flow.read_bytes
                offsets += sum(own.values()) - sum(last.round.offsets.values())
        if offsets > 0:
            self._sizes.append(max(read, 0) / offsets)
