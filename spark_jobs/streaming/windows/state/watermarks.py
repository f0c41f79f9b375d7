"""Event time at a reducer: the minimum watermark of its upstream units; by the clock when all are idle."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.sources.schema import MICROS, to_micros


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

        Event time is the minimum over all known `units`. A unit that has sent no watermark yet holds it back, an idle
        unit does not. A unit's idle flag is valid at its clock: while another unit has a later clock, the idle unit may
        have rows by now, so it still counts. When all units are idle, event time advances by the clock from the
        greatest watermark, so that the last windows close too; the clock is that of a round that all units have
        completed. In this case event time may be ahead of rows that the units have not read yet, such as rows produced
        while the job was down.
        """
        highs = {**self.highs, **{str(unit): to_micros(watermark) for unit, watermark in watermarks.items()}}
        all_units = set(units)
        active = all_units - set(idle)
        newest = max((clocks.get(unit, 0.0) for unit in active), default=0.0)
        counting = {unit for unit in all_units if unit in active or clocks.get(unit, 0.0) < newest}
        idle_since = None
        if active or not all_units:
            mark = min((watermarks.get(unit, -math.inf) for unit in counting), default=-math.inf)
        else:
            clock = min(clocks.values(), default=0.0)
            idle_since = clock if self.idle_since is None else self.idle_since
            mark = max(highs.values()) / MICROS + clock - idle_since if highs else -math.inf
        reached = to_micros(mark) if math.isfinite(mark) else None
        candidates = [value for value in (self.closed, reached) if value is not None]
        return EventTime(max(candidates, default=None), highs, idle_since)
