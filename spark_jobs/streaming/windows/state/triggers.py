"""Which windows are due, and which slices are needed no more: plain arithmetic on their bounds.

A bound that is None does not bind. `mark` is up to where windows were emitted before, `limit` up to where they are
closed now, `after` and `floor` where whole ones may begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.sql.windowing import Hop, Landmark, Rows, Window


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a window that is due keeps to: begins after `after` and not before `floor`, ends in (mark, limit]."""

    mark: int | None
    limit: int | None
    after: int | None
    floor: int | None

    def holds(self, begin: int, end: int) -> bool:
        """Whether the window [begin, end) keeps to them; none does without a limit."""
        return (
            self.limit is not None
            and end <= self.limit
            and (self.mark is None or end > self.mark)
            and (self.after is None or begin > self.after)
            and (self.floor is None or begin >= self.floor)
        )


def due(window: Hop | Rows, slices: Iterable[int], bounds: Bounds) -> list[tuple[int, int]]:
    """The windows that are due and hold one of the slices, by their ends."""
    if bounds.limit is None:
        return []
    found: set[int] = set()
    for begin in slices:
        past = begin if bounds.mark is None else max(begin, bounds.mark)
        first = next_begin(window, past)
        last = min(begin, bounds.limit - window.size)
        found.update(range(first, last + 1, window.slide))
    windows = [(begin, begin + window.size) for begin in sorted(found)]
    return [each for each in windows if bounds.holds(*each)]


def landmark_begin(window: Landmark, after: int | None, floor: int | None) -> int:
    """Where a landmark's window really begins: at the landmark, or with the first slice that is whole."""
    least = max(window.since, window.since if after is None else after + 1, window.since if floor is None else floor)
    return window.since + -(-(least - window.since) // window.width) * window.width


def next_begin(window: Hop | Rows, mark: int) -> int:
    """Where the first window begins that ends after `mark`."""
    return (mark - window.size - window.shift) // window.slide * window.slide + window.slide + window.shift


def needed_from(window: Window, mark: int | None) -> int | None:
    """The first slice that windows will need which end after `mark`; None: all. Landmarks need those after it."""
    if mark is None:
        return None
    if isinstance(window, Landmark):
        return mark
    return next_begin(window, mark)


def floor_of(needs: Sequence[int | None], floor: int | None, retained_from: int | None) -> int | None:
    """The slice before which none is needed by anybody; it does not go back."""
    if not needs or any(need is None for need in needs):
        return floor
    least = min([need for need in needs if need is not None] + ([] if retained_from is None else [retained_from]))
    return least if floor is None else max(floor, least)
