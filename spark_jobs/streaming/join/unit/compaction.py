"""Levels of stored tuples, and their compaction: partial merges of a level into the next, of bounded size.

A level is a sequence of segments in disjoint ascending ranges of (key, seq). A step takes from a level the rows in the
range of one segment of the next level, and merges the two; the next step continues after that range, as LevelDB's
compactions do. So levels are complete after each step, and segments that it did not touch stay the same objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from springline.spark_jobs.streaming.join.unit.migration_select import Selection
from springline.spark_jobs.streaming.join.unit.segments import (
    Bound,
    Segment,
    concat_run,
    cut_run,
    merge_optional,
    visible_run,
)

Level = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a store, in bytes: the approximate maximum of a `segment`, and of all `young` runs, which merge eagerly.

    A level is `times` as large as the one above it. Compaction in a round stops after reading about `work` times the
    incoming bytes; one step is always allowed.
    """

    segment: int = 16 << 20
    young: int = 8 << 20
    times: int = 8
    work: int = 24


@dataclass(frozen=True)
class Levels:
    """Levels, smallest first; the `incoming` levels, newest first, are to be merged into the first of `levels`.

    `cursors` has the position of the next step for each of `levels`; no segment extends across the cursor of its level.
    """

    incoming: tuple[Level, ...] = ()
    levels: tuple[Level, ...] = ()
    cursors: tuple[Bound | None, ...] = ()

    @property
    def segments(self) -> Level:
        """All segments, in the order of a state."""
        return tuple(segment for level in (*self.incoming, *self.levels) for segment in level)

    def with_incoming(self, level: Level) -> Levels:
        """Return the levels with one more incoming level."""
        return replace(self, incoming=(level, *self.incoming)) if level else self

    def replaced(self, segments: Sequence[Segment | None]) -> Levels:
        """Return the levels with each segment replaced by another one, or removed (None)."""
        each = iter(segments)

        def of(levels: tuple[Level, ...]) -> tuple[Level, ...]:
            return tuple(tuple(segment for _ in level if (segment := next(each)) is not None) for level in levels)

        incoming = tuple(level for level in of(self.incoming) if level)
        return Levels(incoming, of(self.levels), self.cursors)

    def advance(self, shape: Shape, hiding: Selection) -> tuple[Levels, int]:
        """Do one compaction step; returns the levels and the bytes read, 0 if no level is too large."""
        deep = self._deepened(shape)
        number = deep._largest(shape)
        if number is None:
            return self, 0
        if number < 0:
            *incoming, upper = deep.incoming
            step = _MergeStep.of(upper, None, deep.levels[0], shape.segment)
            upper, lower = step.carry_out(deep.cursors[0], shape.segment, hiding)
            levels = (lower, *deep.levels[1:])
            return Levels((*incoming, upper) if upper else tuple(incoming), levels, deep.cursors), step.bytes
        upper, lower = deep.levels[number : number + 2]
        step = _MergeStep.of(upper, deep.cursors[number], lower, shape.segment)
        upper, lower = step.carry_out(deep.cursors[number + 1], shape.segment, hiding)
        cursor = upper[step.first_upper].least if step.first_upper < len(upper) else None
        levels = (*deep.levels[:number], upper, lower, *deep.levels[number + 2 :])
        cursors = (*deep.cursors[:number], cursor, *deep.cursors[number + 1 :])
        return Levels(deep.incoming, levels, cursors), step.bytes

    def _deepened(self, shape: Shape) -> Levels:
        """Return as many levels as the size requires: new ones are put first, and empty ones are removed."""
        total, level_count = _bytes(self.segments), 1
        while shape.young * shape.times**level_count < total:
            level_count += 1
        filled = [pair for pair in zip(self.levels, self.cursors, strict=True) if pair[0]]
        empty_levels = [((), None)] * max(level_count - len(filled), 0)
        levels, cursors = zip(*empty_levels, *filled, strict=True)
        return Levels(self.incoming, levels, cursors)

    def _largest(self, shape: Shape) -> int | None:
        """Return the level to compact, -1 for an incoming one: the one that exceeds its limit by the largest factor."""
        candidates: list[tuple[float, int]] = []
        if self.incoming:
            candidates.append((sum(map(_bytes, self.incoming)) / shape.young, -1))
        byte_limit = _bytes(self.segments)
        for number in range(len(self.levels) - 2, -1, -1):
            byte_limit //= shape.times
            if (size := _bytes(self.levels[number])) > byte_limit:
                candidates.append((size / max(byte_limit, 1), number))
        return max(candidates)[1] if candidates else None


@dataclass(frozen=True)
class _MergeStep:
    """A merge of `complete_count` segments from `first_upper` on, and of the next one's rows before `end`.

    They are merged into `lower[first:last]`.
    """

    upper: Level
    lower: Level
    first_upper: int
    complete_count: int
    end: int | None
    first: int
    last: int

    @staticmethod
    def of(upper: Level, cursor: Bound | None, lower: Level, most: int) -> _MergeStep:
        """Choose the rows from the cursor on in the range of one lower segment, or of a few small consecutive ones."""
        first_upper = 0 if cursor is None else bisect_left(upper, cursor, key=_least)
        first_upper = 0 if first_upper == len(upper) else first_upper
        first = max(bisect_right(lower, upper[first_upper].least, key=_least) - 1, 0)
        last, size = min(first + 1, len(lower)), _bytes(lower[first : first + 1])
        while last < len(lower) and size + lower[last].bytes <= most:
            size += lower[last].bytes
            last += 1
        bound = lower[last].least if last < len(lower) else None
        complete_count, free_bytes = 0, most
        for segment in upper[first_upper:]:
            if free_bytes <= 0 or (bound is not None and segment.least >= bound):
                break
            end = segment.end_of(bound, free_bytes)
            if end < len(segment.run):
                return _MergeStep(upper, lower, first_upper, complete_count, end, first, last)
            complete_count, free_bytes = complete_count + 1, free_bytes - segment.stored_bytes
        return _MergeStep(upper, lower, first_upper, complete_count, None, first, last)

    @property
    def bytes(self) -> int:
        """Bytes that the step reads, approximately."""
        inputs = self.upper[self.first_upper : self.first_upper + self.complete_count]
        size = sum(segment.stored_bytes for segment in (*inputs, *self.lower[self.first : self.last]))
        if self.end is None:
            return size
        part = self.upper[self.first_upper + self.complete_count]
        return size + part.stored_bytes * (self.end - part.start) // (len(part.run) - part.start)

    def carry_out(self, cursor: Bound | None, most: int, hiding: Selection) -> tuple[Level, Level]:
        """Merge; returns the upper and the lower level. No segment is created across the lower level's cursor."""
        inputs, remaining = (
            self.upper[self.first_upper : self.first_upper + self.complete_count],
            self.upper[self.first_upper + self.complete_count :],
        )
        part = None
        if self.end is not None:
            batch, rest = remaining[0].split(self.end, hiding)
            part = concat_run([batch])
            remaining = (*(() if rest is None else (rest,)), *remaining[1:])
        upper = (*self.upper[: self.first_upper], *remaining)
        before, overlapping, after = (
            self.lower[: self.first],
            self.lower[self.first : self.last],
            self.lower[self.last :],
        )
        if not overlapping or (inputs and overlapping[-1].greatest < inputs[0].least and _bytes(inputs) * 4 >= most):
            output = (*overlapping, *inputs, *cut_run(part, most))
        else:
            output = cut_run(
                merge_optional(visible_run(overlapping, hiding), merge_optional(visible_run(inputs, hiding), part)),
                most,
                cursor,
            )
        return upper, (*before, *output, *after)


def _least(segment: Segment) -> Bound:
    return segment.least


def _bytes(segments: Level) -> int:
    return sum(segment.bytes for segment in segments)
