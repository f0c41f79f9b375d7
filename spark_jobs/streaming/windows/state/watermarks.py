"""Event time at a reducer: the least watermark of its units upstream, and what stands for it when they are idle."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.sources.schema import MICROS, to_micros


@dataclass(frozen=True)
class EventTime:
    """How far event time is.

    `closed` never goes back: what had to be in by then is late from now on. `highs` is the last time told by each unit
    upstream; `idle_since` is their clock when the last of them fell idle.
    """

    closed: int | None = None
    highs: Mapping[str, int] = field(default_factory=dict)
    idle_since: float | None = None

    def after(
        self, watermarks: Mapping[int, float], idle: Collection[int], units: Iterable[int], clocks: Mapping[int, float]
    ) -> EventTime:
        """With what the units have told by this round; `clocks` are those of their last rounds.

        The least of them counts, of all `units` that are known of; one that has told nothing yet holds everything back,
        one that is idle does not. That one is idle was true at its clock: while another one has rows that are later, it
        may have some by now, and counts. When all are idle, event time goes on by the clock from the greatest time
        told, so that the last windows close too: by the clock of a round that all of them have ended. Here time may be
        ahead of rows that they have not read yet, such as those that came while the job was down.
        """
        highs = {**self.highs, **{str(unit): to_micros(told) for unit, told in watermarks.items()}}
        known_of = set(units)
        active = known_of - set(idle)
        newest = max((clocks.get(unit, 0.0) for unit in active), default=0.0)
        counting = {unit for unit in known_of if unit in active or clocks.get(unit, 0.0) < newest}
        idle_since = None
        if active or not known_of:
            mark = min((watermarks.get(unit, -math.inf) for unit in counting), default=-math.inf)
        else:
            clock = min(clocks.values(), default=0.0)
            idle_since = clock if self.idle_since is None else self.idle_since
            mark = max(highs.values()) / MICROS + clock - idle_since if highs else -math.inf
        reached = to_micros(mark) if math.isfinite(mark) else None
        known = [value for value in (self.closed, reached) if value is not None]
        return EventTime(max(known, default=None), highs, idle_since)
