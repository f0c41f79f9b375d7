"""Ranges of roots: consecutive messages that are one root each, or the rows of one message; grouping of records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import dense_kernels
from springline.spark_jobs.streaming.tracking.records import Ids, TrackingRecords
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import ROW_BITS, ROWS, check_root_range, root_id

_CLOSE = 4  # at least one of so many values of a range must be unfinished for records to be grouped
_FEWEST = 16


@dataclass(frozen=True)
class RootRange:
    """Messages from an offset on, with one root each (rows = 1), or one message whose rows are roots."""

    partition: int
    offset: int
    messages: int
    rows: int

    @classmethod
    def of(cls, partition: int, offset: int, messages: int, rows: int) -> list[RootRange]:
        """Split messages with rows into ranges of this form; raises `InvalidRootError`."""
        check_root_range(partition, offset, messages, rows)
        if rows == 1 or messages == 1:
            return [cls(partition, offset, messages, rows)]
        return [cls(partition, offset + step, 1, rows) for step in range(messages)]

    @property
    def order(self) -> int:
        """Whether its places on the ring are messages' (1) or arcs (0)."""
        return int(self.rows == 1)

    @cached_property
    def place(self) -> int:
        """Its first place on the ring."""
        return int(dense_kernels.place_of(np.uint64(root_id(self.partition, self.offset)), self.order))

    def count_before(self, ring: AckerRing, acker: int, steps: int) -> int:
        """Return how many roots of the acker are among the first `steps`."""
        return int(dense_kernels.places(ring.ranks(acker)[self.order], self.place, steps))

    def count(self, ring: AckerRing, acker: int) -> int:
        """Return how many of its roots belong to the acker."""
        return self.count_before(ring, acker, self.messages * self.rows)

    def roots(self, ring: AckerRing, acker: int) -> Ids:
        """Return the roots of the acker, in order."""
        return self.roots_at(ring, acker, np.arange(self.count(ring, acker)))

    def roots_at(self, ring: AckerRing, acker: int, positions: npt.NDArray[np.int64]) -> Ids:
        """Return some of the roots of the acker, by their positions from 0."""
        ranks, first = ring.ranks(acker)[self.order], root_id(self.partition, self.offset) >> ROW_BITS
        inverse = ring.inverse(acker)[self.order]
        roots: Ids = dense_kernels.roots_at(first, self.order, self.place, ranks, inverse, positions)
        return roots


def root_ranges_of(
    records: TrackingRecords, ring: AckerRing, acker: int
) -> Iterator[tuple[RootRange, npt.NDArray[np.int64], int]]:
    """Group records into dense ranges: first attempts of one acker, registered in one tick; with their row numbers.

    `records` is sorted by root.
    """
    fit = records.registered & (records.attempts == 1) & (ring.owners_of(records.roots) == acker)
    rows = np.flatnonzero(fit)
    root_ids, ticks = records.roots[rows], records.ticks[rows]
    messages, numbers = (
        (root_ids >> np.uint64(ROW_BITS)).astype(np.int64),
        (root_ids & np.uint64(ROWS - 1)).astype(np.int64),
    )
    by_row = np.isin(messages, messages[numbers > 0])
    offsets = messages & (1 << 36) - 1
    place = dense_kernels.places_of(root_ids)
    nth = (offsets - place + 4095 >> 12) * ring.ranks(acker)[1][-1] + ring.ranks(acker)[1][place]
    same = (np.diff(messages) == 0) & by_row[1:]
    same |= ~by_row[1:] & ~by_row[:-1] & (np.diff(messages >> 36) == 0) & (np.diff(nth) <= _CLOSE)
    cuts = np.flatnonzero(~(same & (np.diff(ticks) == 0))) + 1
    twice = by_row & np.isin(messages, messages[cuts][messages[cuts] == messages[cuts - 1]])  # of two ticks
    for part in np.split(np.arange(rows.size), cuts):
        if part.size < _FEWEST or twice[part[0]]:
            continue
        first, last = part[0], part[-1]
        partition, offset = int(messages[first]) >> 36, int(offsets[first])
        if by_row[first]:
            root_range = RootRange(partition, offset, 1, int(numbers[last]) + 1)
        else:
            root_range = RootRange(partition, offset, int(messages[last] - messages[first]) + 1, 1)
        if part.size * _CLOSE >= root_range.count(ring, acker):
            yield root_range, rows[part], int(ticks[first])
