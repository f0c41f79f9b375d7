"""Levels of stored tuples, and how a part of one is merged into the next: in steps of a bounded number of bytes.

A level is a sequence of segments in disjoint ascending ranges of (key, seq). A step takes from a level what lies in the
range of one segment of the level below it, and merges the two; the next step goes on behind that range, as LevelDB's
compactions do. So every step leaves whole levels, and what it did not touch stays the same object.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from springline.spark_jobs.streaming.join.unit.migration_select import Selection
from springline.spark_jobs.streaming.join.unit.segments import Bound, Segment, both, cut, in_order, whole_of

Level = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a store, in bytes: of a `segment`, at most about, and of the `young` runs, which are merged at once.

    A level has `times` as many bytes as the one above it. A round's steps go on until they have read about `work` times
    the bytes that came in; one may always be taken.
    """

    segment: int = 16 << 20
    young: int = 8 << 20
    times: int = 8
    work: int = 24


@dataclass(frozen=True)
class Levels:
    """Levels, the smaller ones first; `waiting` ones, the newest first, are on their way into the first of `levels`.

    `cursors` tell for each of `levels` where the next step goes on; no segment lies on both sides of its level's.
    """

    waiting: tuple[Level, ...] = ()
    levels: tuple[Level, ...] = ()
    cursors: tuple[Bound | None, ...] = ()

    @property
    def segments(self) -> Level:
        """All of them, in the order in which a state has them."""
        return tuple(segment for level in (*self.waiting, *self.levels) for segment in level)

    def with_waiting(self, level: Level) -> Levels:
        """With one more level on its way."""
        return replace(self, waiting=(level, *self.waiting)) if level else self

    def replaced(self, now: Sequence[Segment | None]) -> Levels:
        """With other segments in the places of all, or with none."""
        each = iter(now)

        def of(levels: tuple[Level, ...]) -> tuple[Level, ...]:
            return tuple(tuple(found for _ in level if (found := next(each)) is not None) for level in levels)

        waiting = tuple(level for level in of(self.waiting) if level)
        return Levels(waiting, of(self.levels), self.cursors)

    def advanced(self, shape: Shape, hiding: Selection) -> tuple[Levels, int]:
        """One step further, and how many bytes it read; 0 where nothing is too large."""
        deep = self._deepened(shape)
        number = deep._largest(shape)
        if number is None:
            return self, 0
        if number < 0:
            *waiting, upper = deep.waiting
            step = _Step.of(upper, None, deep.levels[0], shape.segment)
            upper, lower = step.carried_out(deep.cursors[0], shape.segment, hiding)
            levels = (lower, *deep.levels[1:])
            return Levels((*waiting, upper) if upper else tuple(waiting), levels, deep.cursors), step.bytes
        upper, lower = deep.levels[number : number + 2]
        step = _Step.of(upper, deep.cursors[number], lower, shape.segment)
        upper, lower = step.carried_out(deep.cursors[number + 1], shape.segment, hiding)
        cursor = upper[step.at].least if step.at < len(upper) else None
        levels = (*deep.levels[:number], upper, lower, *deep.levels[number + 2 :])
        cursors = (*deep.cursors[:number], cursor, *deep.cursors[number + 1 :])
        return Levels(deep.waiting, levels, cursors), step.bytes

    def _deepened(self, shape: Shape) -> Levels:
        """With as many levels as its size asks for: new ones are the first, and empty ones go."""
        total, wanted = _bytes(self.segments), 1
        while shape.young * shape.times**wanted < total:
            wanted += 1
        kept = [pair for pair in zip(self.levels, self.cursors, strict=True) if pair[0]]
        empty = [((), None)] * max(wanted - len(kept), 0)
        levels, cursors = zip(*empty, *kept, strict=True)
        return Levels(self.waiting, levels, cursors)

    def _largest(self, shape: Shape) -> int | None:
        """Which level is to give to the next one, -1 for a waiting one: what is the most times what it may be."""
        found: list[tuple[float, int]] = []
        if self.waiting:
            found.append((sum(map(_bytes, self.waiting)) / shape.young, -1))
        may_be = _bytes(self.segments)
        for number in range(len(self.levels) - 2, -1, -1):
            may_be //= shape.times
            if (size := _bytes(self.levels[number])) > may_be:
                found.append((size / max(may_be, 1), number))
        return max(found)[1] if found else None


@dataclass(frozen=True)
class _Step:
    """Segments from `at` on, `whole` of them and the last one up to row `end`, go into `lower[first:last]`."""

    upper: Level
    lower: Level
    at: int
    whole: int
    end: int | None
    first: int
    last: int

    @staticmethod
    def of(upper: Level, cursor: Bound | None, lower: Level, most: int) -> _Step:
        """What lies from the cursor on in the range of one segment below, or of small ones that follow each other."""
        at = 0 if cursor is None else bisect_left(upper, cursor, key=_least)
        at = 0 if at == len(upper) else at
        first = max(bisect_right(lower, upper[at].least, key=_least) - 1, 0)
        last, size = min(first + 1, len(lower)), _bytes(lower[first : first + 1])
        while last < len(lower) and size + lower[last].bytes <= most:
            size += lower[last].bytes
            last += 1
        bound = lower[last].least if last < len(lower) else None
        whole, room = 0, most
        for segment in upper[at:]:
            if room <= 0 or (bound is not None and segment.least >= bound):
                break
            end = segment.end_of(bound, room)
            if end < len(segment.run):
                return _Step(upper, lower, at, whole, end, first, last)
            whole, room = whole + 1, room - segment.held
        return _Step(upper, lower, at, whole, None, first, last)

    @property
    def bytes(self) -> int:
        """How many bytes it reads, about."""
        taken = self.upper[self.at : self.at + self.whole]
        size = sum(segment.held for segment in (*taken, *self.lower[self.first : self.last]))
        if self.end is None:
            return size
        part = self.upper[self.at + self.whole]
        return size + part.held * (self.end - part.start) // (len(part.run) - part.start)

    def carried_out(self, cursor: Bound | None, most: int, hiding: Selection) -> tuple[Level, Level]:
        """The upper and the lower level after it; no segment is made across the lower level's cursor."""
        taken, left = self.upper[self.at : self.at + self.whole], self.upper[self.at + self.whole :]
        part = None
        if self.end is not None:
            batch, rest = left[0].parted(self.end, hiding)
            part = in_order([batch])
            left = (*(() if rest is None else (rest,)), *left[1:])
        upper = (*self.upper[: self.at], *left)
        before, here, after = self.lower[: self.first], self.lower[self.first : self.last], self.lower[self.last :]
        if not here or (taken and here[-1].greatest < taken[0].least and _bytes(taken) * 4 >= most):
            made = (*here, *taken, *cut(part, most))
        else:
            made = cut(both(whole_of(here, hiding), both(whole_of(taken, hiding), part)), most, cursor)
        return upper, (*before, *made, *after)


def _least(segment: Segment) -> Bound:
    return segment.least


def _bytes(segments: Level) -> int:
    return sum(segment.bytes for segment in segments)
