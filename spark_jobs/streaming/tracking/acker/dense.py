"""The dense layout: for the first attempts of ranges of roots, a block of check values, and nothing else, a range.

A root's id is not kept: it follows from where its value lies. What is complete is 0, a range that is complete to its
last root is dropped, and what does not lie here (or does not any more) is told to the caller, who has slots for it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import dense_kernels
from springline.spark_jobs.streaming.tracking.acker.dense_kernels import (
    ADDRESS,
    BORN,
    CIRCLE,
    COLUMNS,
    FIRST,
    LEFT,
    MESSAGES,
    ORDER,
    PLACE,
    ROWS,
)
from springline.spark_jobs.streaming.tracking.acker.root_ranges import Run, runs_of
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import SLICES, Completed, Ids, Items, items, together
from springline.spark_jobs.streaming.tracking.ring import Circle

_Values = npt.NDArray[np.uint64]


class Dense:
    """The ranges of one acker. Each is found by the circle under which it was registered."""

    def __init__(self, acker: int) -> None:
        self.acker = acker
        self._ranges = np.empty((0, COLUMNS), np.int64)
        self._blocks: list[_Values] = []
        self._new: list[list[int]] = []
        self._circles: list[Circle] = []
        self._ranks = np.empty((0, 2, 4097), np.int64)

    def __len__(self) -> int:
        return int(self._sorted()[:, LEFT].sum())

    @property
    def nbytes(self) -> int:
        """What blocks and ranges take."""
        return sum(block.nbytes for block in self._blocks) + self._sorted().nbytes

    def register(self, run: Run, values: npt.ArrayLike, born: int, circle: Circle) -> Completed:
        """Put the values of the run's roots that are the acker's here, in the order of their ids, or one for all."""
        if not 0 <= born < SLICES:
            raise InvalidUpdateError(f"{run}, slice {born}: a record has room for slices 0 to {SLICES - 1}")
        own, given = run.count(circle, self.acker), np.asarray(values, np.uint64)
        if given.ndim and given.size != own:
            raise InvalidUpdateError(f"{run}: {given.size} values for {own} roots that acker {self.acker} holds")
        if not own:
            return Completed.first(np.empty(0, np.uint64), np.empty(0, np.uint32))
        block = np.array(np.broadcast_to(given, own))
        done = run.roots_at(circle, self.acker, np.flatnonzero(block == 0))
        if done.size < own:
            self._add(run, block, own - done.size, born, circle)
        return Completed.first(done, np.full(done.size, born, np.uint32))

    def ack(self, roots: Ids, values: npt.ArrayLike) -> tuple[Completed, npt.NDArray[np.bool_]]:
        """XOR values into roots; returns what is complete, and which roots are known here."""
        known, done, born = np.zeros(roots.size, np.bool_), np.empty(roots.size, np.uint64), np.empty(0, np.uint32)
        ranges = self._sorted()
        if not len(ranges):
            return Completed.first(done[:0], born), known
        added, born = np.atleast_1d(np.asarray(values, np.uint64)), np.empty(roots.size, np.uint32)
        count = dense_kernels.ack(ranges, self._ranks, roots, added, known, done, born)
        if count:
            self._drop()
        return Completed.first(done[:count].copy(), born[:count].copy()), known

    def ack_run(self, run: Run, value: int, circle: Circle) -> tuple[Completed, Ids]:
        """XOR one value into the roots that the acker holds under a circle; returns what is complete, what not known.

        At the speed of memory where ranges were registered under this circle.
        """
        found, unknown, at = [], [], run.offset
        last = run.offset + run.messages
        for index in self._over(run):
            row, block = self._ranges[index], self._blocks[index]
            first = int(row[FIRST]) - (run.partition << 36)
            begin, end = max(first, run.offset), min(first + int(row[MESSAGES]), last)
            if row[ROWS] != run.rows or self._circles[row[CIRCLE]] != circle:
                continue
            if at < begin:
                unknown.append(Run(run.partition, at, begin - at, run.rows))
            held = Run(run.partition, first, int(row[MESSAGES]), run.rows)
            found.append(self._ack_block(index, block, held, (begin - first, end - first), value, circle))
            at = end
        if at < last:
            unknown.append(Run(run.partition, at, last - at, run.rows))
        rest = np.concatenate([part.roots(circle, self.acker) for part in unknown] or [np.empty(0, np.uint64)])
        if rest.size:
            done, known = self.ack(rest, value)
            found.append((done, rest[~known]))
        self._drop()
        return Completed.joined([one for one, _ in found]), np.concatenate(
            [np.empty(0, np.uint64), *(two for _, two in found)]
        )

    def take(self, roots: Ids) -> Items:
        """Remove those of the roots that are unfinished here and return them, in the order given."""
        ranges = self._sorted()
        holders, addresses = np.empty(roots.size, np.int64), np.empty(roots.size, np.uint64)
        dense_kernels.locate(ranges, self._ranks, roots, holders, addresses)
        values = np.zeros(roots.size, np.uint64)
        dense_kernels.exchange(ranges, holders, addresses, values)
        here = values != 0
        born = ranges[holders[here], BORN]
        self._drop()
        return items(roots[here], 1, True, born, values[here])

    def put(self, roots: Ids, values: _Values) -> None:
        """Set the values of roots whose ranges are here."""
        holders, addresses = np.empty(roots.size, np.int64), np.empty(roots.size, np.uint64)
        dense_kernels.locate(self._sorted(), self._ranks, roots, holders, addresses)
        if not addresses.all():
            raise InvariantError("a value was to be put where no range is")
        dense_kernels.exchange(self._ranges, holders, addresses, values.copy())

    def items(self) -> Items:
        """What is unfinished, in the order of roots."""
        return together([self._items(index) for index in range(len(self._sorted()))])

    def load(self, found: Items, circle: Circle) -> npt.NDArray[np.bool_]:
        """Take over records, in the order of roots, into a table that is empty; returns which lie close enough."""
        if len(self):
            raise InvariantError("records can only be loaded into a table that is empty")
        taken = np.zeros(found.roots.size, np.bool_)
        for run, rows, born in runs_of(found, circle, self.acker):
            self._add(run, np.zeros(run.count(circle, self.acker), np.uint64), 0, born, circle)
            taken[rows] = True
        self.put(found.roots[taken], found.values[taken])
        return taken

    def sweep(self, before: int) -> Items:
        """Remove the ranges of slices before this one; returns what was unfinished, in the order of roots."""
        old = np.flatnonzero(self._sorted()[:, BORN] < before)
        swept = together([self._items(int(index)) for index in old])
        self._ranges[old, LEFT] = 0
        self._drop()
        return swept

    def release(self, circle: Circle) -> Items:
        """Remove what is another acker's under a circle and return it, in the order of roots."""
        found = []
        for index, row in enumerate(self._sorted()):
            if self._circles[row[CIRCLE]] != circle:
                held = self._items(index)
                found.append(held.at(circle.owners_of(held.roots) != self.acker))
        out = together(found)
        if out.roots.size:
            self.take(out.roots)
        return out

    def lows(self, least: Ids) -> None:
        """Lower `least`, by partition, to the least unfinished root that is here."""
        seen = set()
        for index, row in enumerate(self._sorted()):
            partition = int(row[FIRST]) >> 36
            if partition not in seen:
                seen.add(partition)
                place = np.array([np.argmax(self._blocks[index] != 0)])
                least[partition] = min(least[partition], self._roots_at(index, place)[0])

    def _ack_block(
        self, index: int, block: _Values, held: Run, part: tuple[int, int], value: int, circle: Circle
    ) -> tuple[Completed, Ids]:
        """XOR one value into the messages of a range from one to another, counted from its first."""
        begin, end = (held.place_after(circle, self.acker, step) if held.order else step * block.size for step in part)
        begin = dense_kernels.xor_run(block, begin, end, np.uint64(value))
        rest = block[begin:end]
        done, gone = np.flatnonzero(rest == value) + begin, np.flatnonzero(rest == 0) + begin
        rest ^= np.uint64(value)
        block[gone] = 0
        if value == 0:
            done = done[:0]
        self._ranges[index, LEFT] -= done.size
        born = np.full(done.size, self._ranges[index, BORN], np.uint32)
        completed = Completed.first(held.roots_at(circle, self.acker, done), born)
        return completed, held.roots_at(circle, self.acker, gone)

    def _over(self, run: Run) -> range:
        """The ranges that share a message with a run."""
        ranges, first = self._sorted(), run.partition << 36 | run.offset
        after = int(np.searchsorted(ranges[:, FIRST], first + run.messages))
        begin = max(0, int(np.searchsorted(ranges[:, FIRST], first, "right")) - 1)
        if begin < after and ranges[begin, FIRST] + ranges[begin, MESSAGES] <= first:
            begin += 1
        return range(begin, after)

    def _run(self, index: int) -> Run:
        first, messages, rows = (int(one) for one in self._ranges[index, [FIRST, MESSAGES, ROWS]])
        return Run(first >> 36, first & (1 << 36) - 1, messages, rows)

    def _roots_at(self, index: int, positions: npt.NDArray[np.int64]) -> Ids:
        return self._run(index).roots_at(self._circles[self._ranges[index, CIRCLE]], self.acker, positions)

    def _items(self, index: int) -> Items:
        positions = np.flatnonzero(self._blocks[index])
        born = self._ranges[index, BORN]
        return items(self._roots_at(index, positions), 1, True, born, self._blocks[index][positions])

    def _add(self, run: Run, block: _Values, left: int, born: int, circle: Circle) -> None:
        if circle not in self._circles:
            self._circles.append(circle)
            self._ranks = np.stack([one.ranks(self.acker) for one in self._circles])
        row = [0] * COLUMNS
        row[FIRST], row[MESSAGES], row[ROWS] = run.partition << 36 | run.offset, run.messages, run.rows
        row[ORDER], row[PLACE], row[CIRCLE] = run.order, run.place, self._circles.index(circle)
        row[ADDRESS], row[LEFT], row[BORN] = block.ctypes.data, left, born
        self._new.append(row)
        self._blocks.append(block)

    def _sorted(self) -> npt.NDArray[np.int64]:
        """The ranges by their first messages, those registered since the last call among them."""
        if self._new:
            ranges = np.concatenate([self._ranges, np.array(self._new, np.int64)])
            order = np.argsort(ranges[:, FIRST], kind="stable")
            self._ranges, self._blocks, self._new = ranges[order], [self._blocks[index] for index in order], []
        return self._ranges

    def _drop(self) -> None:
        """Drop the ranges that are complete."""
        left = self._ranges[:, LEFT] != 0
        if not left.all():
            self._ranges = self._ranges[left]
            self._blocks = [block for block, stays in zip(self._blocks, left, strict=True) if stays]

    def _check(self) -> None:
        """Raise `InvariantError` if the ranges contradict themselves."""
        ranges = self._sorted()
        if (ranges[:-1, FIRST] + ranges[:-1, MESSAGES] > ranges[1:, FIRST]).any():
            raise InvariantError("two ranges share a message")
        for index, row in enumerate(ranges):
            run, block = self._run(index), self._blocks[index]
            circle = self._circles[row[CIRCLE]]
            if row[LEFT] != np.count_nonzero(block) or not row[LEFT]:
                raise InvariantError(
                    f"{run}: {row[LEFT]} roots are counted as unfinished, {np.count_nonzero(block)} are"
                )
            if row[ADDRESS] != block.ctypes.data or block.size != run.count(circle, self.acker):
                raise InvariantError(f"{run}: its values do not lie where they are looked for")
            if (row[PLACE], row[ORDER]) != (run.place, run.order):
                raise InvariantError(f"{run}: it begins elsewhere on the circle")
