"""Retention: the router rounds whose tuples still match, by the rounds' clocks, which are the same for all units.

Time is divided into ticks of a 60th of the retention time. A tuple matches the probes of a round if at most 60 ticks
have started since the tick of its own round: always if the clocks of the two rounds are at most `ttl` apart, and never
if they are ttl * 61/60 or more apart. A unit stores where 61 ticks begin, however many tuples it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from springline.spark_jobs.streaming.join.wire import first_seq

TICKS = 60


@dataclass(frozen=True, slots=True)
class Retention:
    """Tuples are kept for `ttl` seconds: those of the router rounds from `since` on.

    `tick_starts` has the first round of each tick that is not expired: its clock (seconds since 1970) and number.
    Rounds before the first one with a clock belong to its tick.
    """

    ttl: float
    tick_starts: tuple[tuple[float, int], ...] = ()
    since: int = 0

    @property
    def expired(self) -> int:
        """Tuples with a seq below this one do not match any more."""
        return first_seq(self.since)

    def advance_to(self, number: int, clock: float) -> Retention:
        """Return the retention in a router round; calls are in the order of rounds, and clocks do not go back."""
        now = self._tick(clock)
        if self.tick_starts and self._tick(self.tick_starts[-1][0]) >= now:
            return self
        tick_starts, since = [*self.tick_starts, (clock, number)], self.since
        while self._tick(tick_starts[0][0]) < now - TICKS:
            del tick_starts[0]
            since = tick_starts[0][1]
        return replace(self, tick_starts=tuple(tick_starts), since=since)

    def _tick(self, clock: float) -> int:
        """Return the tick of a clock, computed exactly."""
        return int(Fraction(clock) * TICKS // Fraction(self.ttl))
