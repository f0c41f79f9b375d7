"""Retention: the router rounds whose tuples still answer, by the clocks of rounds, which all units are told alike.

Time is divided into ticks of a 60th of what is kept. A tuple answers the probes of a round if at most 60 ticks have
begun since the tick of its own round: so surely where the clocks of the two rounds are at most `keep` apart, and surely
not where they are keep * 61/60 or more apart. A unit remembers where 61 ticks begin, however many tuples it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from springline.spark_jobs.streaming.join.wire import first_seq

TICKS = 60


@dataclass(frozen=True, slots=True)
class Retention:
    """Tuples are kept for `keep` seconds: those of the router rounds from `since` on.

    `begun` has for each tick that is not over for good its first round: the clock (seconds since 1970), the number.
    Rounds before the first that told a clock count as of its tick.
    """

    keep: float
    begun: tuple[tuple[float, int], ...] = ()
    since: int = 0

    @property
    def expired(self) -> int:
        """Tuples with a seq below this one answer nothing any more."""
        return first_seq(self.since)

    def at(self, number: int, clock: float) -> Retention:
        """As it is in a router round; rounds are told in their order, and clocks do not go back."""
        now = self._tick(clock)
        if self.begun and self._tick(self.begun[-1][0]) >= now:
            return self
        begun, since = [*self.begun, (clock, number)], self.since
        while self._tick(begun[0][0]) < now - TICKS:
            del begun[0]
            since = begun[0][1]
        return replace(self, begun=tuple(begun), since=since)

    def _tick(self, clock: float) -> int:
        """The tick of a clock, without an error of rounding."""
        return int(Fraction(clock) * TICKS // Fraction(self.keep))
