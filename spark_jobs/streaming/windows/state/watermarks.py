"""Event time: at a mapper that of its partitions, at a reducer the minimum watermark of its upstream units."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from springline.spark_jobs.streaming.sources.schema import MICROS, to_micros

BEFORE_ALL = -(2**62)  # before every event time, in microseconds


@dataclass(frozen=True)
class PartitionTime:
    """What a mapper has read of a partition: its rows, and their greatest time in microseconds.

    `active` is the clock of the newest round that had rows; before the first rows, that of the partition's first round.
    """

    rows: int = 0
    high: int = BEFORE_ALL
    active: float = 0.0

    def with_rows(self, rows: int, high: int) -> PartitionTime:
        """Return it after some more rows, with the greatest time of these."""
        return replace(self, rows=self.rows + rows, high=max(self.high, high))


@dataclass(frozen=True)
class SourceTime:
    """The event time that a mapper has reached, by the partitions that it reads.

    A partition without rows for the stream's `idle_timeout` is idle: it does not hold back the watermark. One with rows
    that no round has admitted yet is not idle. After the whole stream was quiet, until the clock `resumed`, none is
    idle for the same time: the partition whose rows arrive first must not close windows for the others.
    """

    partitions: Mapping[int, PartitionTime] = field(default_factory=dict)
    resumed: float = 0.0

    @property
    def high(self) -> int | None:
        """The greatest time of all rows, in microseconds; None before the first row."""
        high = max((each.high for each in self.partitions.values()), default=BEFORE_ALL)
        return None if high == BEFORE_ALL else high

    def with_partitions(self, partitions: Iterable[int], clock: float) -> SourceTime:
        """Return it with these partitions, of which some may be new."""
        new = {partition: PartitionTime(active=clock) for partition in partitions if partition not in self.partitions}
        return replace(self, partitions={**self.partitions, **new})

    def after_round(self, partitions: Mapping[int, PartitionTime], clock: float, *, resumes: bool) -> SourceTime:
        """Return it after a round, from what was read of each partition up to its end; `resumes`: the stream was quiet
        before.
        """
        read = {
            partition: replace(each, active=clock) if each.rows > self.partitions[partition].rows else each
            for partition, each in sorted(partitions.items())
        }
        return SourceTime(read, clock if resumes else self.resumed)

    def idle_from(self, idle_timeout: float | None) -> dict[int, float]:
        """Return the clock from which each partition is idle if no rows come."""
        timeout = math.inf if idle_timeout is None else idle_timeout
        return {partition: max(each.active, self.resumed) + timeout for partition, each in self.partitions.items()}

    def watermark(self, idle: Collection[int]) -> float | None:
        """Return the least of the greatest times of the partitions that are not idle, or if all are, the greatest of
        all, in seconds; None if a partition that is not idle had no rows yet.
        """
        highs = [each.high for partition, each in self.partitions.items() if partition not in idle]
        high = min(highs) if highs else self.high
        return None if high is None or high == BEFORE_ALL else high / MICROS


@dataclass(frozen=True)
class EventTime:
    """The event time that a reducer has reached.

    `closed` never decreases: rows of slices that end before it are late from then on. `highs` is the last watermark of
    each upstream unit; `idle_since` is the units' clock when the last of them became idle.
    """

    closed: int | None = None
    highs: Mapping[str, int] = field(default_factory=dict)
    idle_since: float | None = None

    def advance(
        self, watermarks: Mapping[int, float], idle: Collection[int], units: Iterable[int], clocks: Mapping[int, float]
    ) -> EventTime:
        """Return the event time after this round's watermarks; `clocks` has the clock of each unit's last round.

        Event time is the minimum over all `units`. A unit that has sent no watermark yet holds it back, an idle unit
        does not. A unit's idle flag is valid at its clock: while another unit has a later clock, the idle unit may have
        rows by now, so event time waits for it. When all units are idle, event time advances by the clock from the
        greatest watermark, so that the last windows close too; the clock is that of a round that all units have
        completed. In this case event time may be ahead of rows that the units have not read yet, such as rows produced
        while the job was down.
        """
        highs = {**self.highs, **{str(unit): to_micros(watermark) for unit, watermark in watermarks.items()}}
        all_units = set(units)
        active = all_units - set(idle)
        newest = max((clocks.get(unit, 0.0) for unit in active), default=0.0)
        idle_since = None
        if any(clocks.get(unit, 0.0) < newest for unit in all_units - active):
            mark = -math.inf
        elif active or not all_units:
            mark = min((watermarks.get(unit, -math.inf) for unit in active), default=-math.inf)
        else:
            clock = min(clocks.values(), default=0.0)
            idle_since = clock if self.idle_since is None else self.idle_since
            mark = max(highs.values()) / MICROS + clock - idle_since if highs else -math.inf
        reached = to_micros(mark) if math.isfinite(mark) else None
        candidates = [value for value in (self.closed, reached) if value is not None]
        return EventTime(max(candidates, default=None), highs, idle_since)
