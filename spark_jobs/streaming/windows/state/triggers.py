"""Window triggers: which windows are due, and which slices are no longer needed; arithmetic on their bounds.

A bound of None does not apply. `mark` is the time up to which windows were emitted before, `limit` the time up to which
they are closed now; complete windows begin after `after`, and not before `floor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.sql.windowing import CountWindow, Hop, Landmark, Window
from springline.spark_jobs.streaming.windows.multi_query import Cube


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """Bounds of the windows that are due: they begin after `after` and not before `floor`, and end in (mark, limit]."""

    mark: int | None
    limit: int | None
    after: int | None
    floor: int | None

    def contains(self, begin: int, end: int) -> bool:
        """Return whether the window [begin, end) is within the bounds; without a limit, no window is."""
        return (
            self.limit is not None
            and end <= self.limit
            and (self.mark is None or end > self.mark)
            and (self.after is None or begin > self.after)
            and (self.floor is None or begin >= self.floor)
        )


def windows_to_fire(window: Hop | CountWindow, slices: Iterable[int], bounds: WindowBounds) -> list[tuple[int, int]]:
    """Return the windows that are due and contain at least one of the slices, sorted by their ends."""
    if bounds.limit is None:
        return []
    begins: set[int] = set()
    for begin in slices:
        past = begin if bounds.mark is None else max(begin, bounds.mark)
        first = next_begin(window, past)
        last = min(begin, bounds.limit - window.size)
        begins.update(range(first, last + 1, window.slide))
    windows = [(begin, begin + window.size) for begin in sorted(begins)]
    return [each for each in windows if bounds.contains(*each)]


def landmark_begin(window: Landmark, after: int | None, floor: int | None) -> int:
    """Return the actual start of a landmark window: the landmark, or the first complete slice."""
    least = max(window.since, window.since if after is None else after + 1, window.since if floor is None else floor)
    return window.since + -(-(least - window.since) // window.width) * window.width


def next_begin(window: Hop | CountWindow, mark: int) -> int:
    """Return the start of the first window that ends after `mark`."""
    return (mark - window.size - window.shift) // window.slide * window.slide + window.slide + window.shift


def needed_from(window: Window, mark: int | None) -> int | None:
    """Return the first slice that windows ending after `mark` need: `mark` for landmark windows; None means all."""
    if mark is None:
        return None
    if isinstance(window, Landmark):
        return mark
    return next_begin(window, mark)


def floor_of(needs: Sequence[int | None], floor: int | None, retained_from: int | None) -> int | None:
    """Return the start of the first slice that is still needed; it never decreases."""
    if not needs or any(need is None for need in needs):
        return floor
    least = min([need for need in needs if need is not None] + ([] if retained_from is None else [retained_from]))
    return least if floor is None else max(floor, least)


@dataclass(frozen=True)
class WindowClosing:
    """When the windows of a query can close: `lateness` after the ends of slices, for at most `span` after a row of
    theirs; in microseconds.
    """

    width: int
    phase: int
    lateness: int
    span: int


def closing_of(cube: Cube, window: Window | None) -> WindowClosing:
    """Return that of a query of a cube; rows of a window of rows are counted as soon as they are not late."""
    width = max(cube.width, 1)
    return WindowClosing(width, cube.phase, cube.lateness, window.size if isinstance(window, Hop) else width)


def next_closing(closings: Iterable[WindowClosing], high: int, reached: int) -> int | None:
    """Return the next event time after `reached` at which a window may close; None if none is open that has rows up to
    `high`.

    >>> next_closing([WindowClosing(width=60, phase=0, lateness=5, span=60)], high=70, reached=100)
    125
    """
    times = []
    for each in closings:
        end = ((reached - each.lateness - each.phase) // each.width + 1) * each.width + each.phase
        if end <= high + each.span:
            times.append(end + each.lateness)
    return min(times, default=None)
