"""A run of roots: consecutive messages that are a root each, or the rows of one message; records gathered to runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import dense_kernels
from springline.spark_jobs.streaming.tracking.records import Ids, Items
from springline.spark_jobs.streaming.tracking.ring import Circle
from springline.spark_jobs.streaming.tracking.root_id import ROW_BITS, ROWS, check, root_id

_CLOSE = 4  # of so many values of a range at least one must be unfinished for records to be gathered
_FEWEST = 16


@dataclass(frozen=True)
class Run:
    """Messages from an offset on, with one root each (rows = 1), or one message whose rows are roots."""

    partition: int
    offset: int
    messages: int
    rows: int

    @classmethod
    def of(cls, partition: int, offset: int, messages: int, rows: int) -> list[Run]:
        """The runs of a range of roots; raises `InvalidRootError`."""
        check(partition, offset, messages, rows)
        if rows == 1 or messages == 1:
            return [cls(partition, offset, messages, rows)]
        return [cls(partition, offset + step, 1, rows) for step in range(messages)]

    @property
    def order(self) -> int:
        """Whether its places on the circle are messages' (1) or arcs (0)."""
        return int(self.rows == 1)

    @cached_property
    def place(self) -> int:
        """Where it begins on the circle."""
        return int(dense_kernels.place_of(np.uint64(root_id(self.partition, self.offset)), self.order))

    def place_after(self, circle: Circle, acker: int, steps: int) -> int:
        """How many roots of the acker are among its first."""
        return int(dense_kernels.places(circle.ranks(acker)[self.order], self.place, steps))

    def count(self, circle: Circle, acker: int) -> int:
        """How many roots of the acker it has."""
        return self.place_after(circle, acker, self.messages * self.rows)

    def roots(self, circle: Circle, acker: int) -> Ids:
        """The roots of the acker, in order."""
        return self.roots_at(circle, acker, np.arange(self.count(circle, acker)))

    def roots_at(self, circle: Circle, acker: int, positions: npt.NDArray[np.int64]) -> Ids:
        """Some of the roots of the acker, by their numbers from 0."""
        ranks, first = circle.ranks(acker)[self.order], root_id(self.partition, self.offset) >> ROW_BITS
        inverse = circle.inverse(acker)[self.order]
        found: Ids = dense_kernels.roots_at(first, self.order, self.place, ranks, inverse, positions)
        return found


def runs_of(found: Items, circle: Circle, acker: int) -> Iterator[tuple[Run, npt.NDArray[np.int64], int]]:
    """Runs of records that lie close: first attempts, registered in one slice, of one acker; with their row numbers.

    `found` is in the order of roots.
    """
    fit = found.registered & (found.attempts == 1) & (circle.owners_of(found.roots) == acker)
    rows = np.flatnonzero(fit)
    names, born = found.roots[rows], found.born[rows]
    messages, numbers = (names >> np.uint64(ROW_BITS)).astype(np.int64), (names & np.uint64(ROWS - 1)).astype(np.int64)
    by_row = np.isin(messages, messages[numbers > 0])
    offsets = messages & (1 << 36) - 1
    place = dense_kernels.places_of(names)
    nth = (offsets - place + 4095 >> 12) * circle.ranks(acker)[1][-1] + circle.ranks(acker)[1][place]
    same = (np.diff(messages) == 0) & by_row[1:]
    same |= ~by_row[1:] & ~by_row[:-1] & (np.diff(messages >> 36) == 0) & (np.diff(nth) <= _CLOSE)
    cuts = np.flatnonzero(~(same & (np.diff(born) == 0))) + 1
    twice = by_row & np.isin(messages, messages[cuts][messages[cuts] == messages[cuts - 1]])  # of two slices
    for part in np.split(np.arange(rows.size), cuts):
        if part.size < _FEWEST or twice[part[0]]:
            continue
        first, last = part[0], part[-1]
        partition, offset = int(messages[first]) >> 36, int(offsets[first])
        if by_row[first]:
            run = Run(partition, offset, 1, int(numbers[last]) + 1)
        else:
            run = Run(partition, offset, int(messages[last] - messages[first]) + 1, 1)
        if part.size * _CLOSE >= run.count(circle, acker):
            yield run, rows[part], int(born[first])
