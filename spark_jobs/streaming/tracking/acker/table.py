"""The tracking records of one acker, in either of two layouts behind one interface.

"slots" is the paper's: 20 bytes a root. "dense" holds the first attempts of ranges of roots at 8 bytes a root, and has
slots beside them for all else: retries, acks that come before their range, records taken over from other ackers. Both
hold the same records after the same calls. There is neither clock nor chance in here: slices of time are numbers that
the caller gives.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.acker.dense import Dense
from springline.spark_jobs.streaming.tracking.acker.root_ranges import Run
from springline.spark_jobs.streaming.tracking.acker.slots import Slots
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import Completed, Ids, Items, items, together
from springline.spark_jobs.streaming.tracking.ring import Circle
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT, PARTITIONS, name_of

Layout = Literal["dense", "slots"]


class Expired(NamedTuple):
    """What was swept: registered roots, which are to be sent again, and acks whose registration never came."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    unregistered_roots: Ids
    unregistered_attempts: npt.NDArray[np.uint8]


class Table:
    """The records of one acker under a circle. Attempts count from 1; `born` is the number of a slice of time."""

    def __init__(self, layout: Layout, acker: int, circle: Circle) -> None:
        self.layout, self.acker, self.circle = layout, acker, circle
        self.completed_count = 0
        self._dense, self._slots = Dense(acker), Slots()
        self._done: list[Completed] = []
        self._stale = 0

    @classmethod
    def of(cls, snapshot: pa.RecordBatch, layout: Layout, acker: int, circle: Circle) -> Table:
        """A table with what another told as `snapshot`."""
        table = cls(layout, acker, circle)
        held = Items.of(snapshot)
        if layout == "dense":
            held = held.at(~table._dense.load(held, circle))
        table._slots.load(held)
        return table

    @property
    def in_flight(self) -> int:
        """Records: roots that are not complete, registered or only heard of."""
        return len(self._dense) + len(self._slots)

    @property
    def stale(self) -> int:
        """Roots and acks that came for an attempt that was over."""
        return self._stale + self._slots.stale

    @property
    def nbytes(self) -> int:
        """What the records take."""
        return self._dense.nbytes + self._slots.nbytes

    def register_range(
        self,
        partition: int,
        offset: int,
        messages: int,
        rows: int,
        values: npt.ArrayLike,
        attempt: int,
        born: int,
        circle: Circle | None = None,
    ) -> None:
        """Register the acker's part (by the circle in force, or another) of a range of roots.

        `values` are of its roots in the order of their ids, or one for all. Raises `InvalidRootError`,
        `InvalidUpdateError`.
        """
        under, runs = circle or self.circle, Run.of(partition, offset, messages, rows)
        given, counts = np.asarray(values, np.uint64), [run.count(circle or self.circle, self.acker) for run in runs]
        if given.ndim and given.size != sum(counts):
            raise InvalidUpdateError(
                f"partition {partition}, {messages} messages of {rows} roots from offset {offset}: {given.size} values "
                f"for {sum(counts)} roots of acker {self.acker}"
            )
        at = 0
        for run, count in zip(runs, counts, strict=True):
            part = given[at : at + count] if given.ndim else given
            at += count
            if self.layout == "dense" and attempt == 1:
                self._register_run(run, part, born, under)
            else:
                self.register(run.roots(under, self.acker), attempt, part, born)

    def register(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, born: int) -> None:
        """Register single roots: XOR their values in, and mark them."""
        ids, tries = np.asarray(roots, np.uint64), np.asarray(attempts)
        self._end_first_attempts(ids, tries)
        self._complete(self._slots.register(ids, tries, values, born))

    def ack(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, born: int) -> None:
        """XOR acks in: those of later attempts first, of attempts that are over not at all."""
        ids, tries, added = np.asarray(roots, np.uint64), np.asarray(attempts), np.asarray(values, np.uint64)
        self._end_first_attempts(ids, tries)
        if tries.ndim and (tries > 1).any():
            later, added = tries > 1, np.broadcast_to(added, ids.shape)
            self._complete(self._slots.ack(ids[later], tries[later], added[later], born))
            ids, added, tries = ids[~later], added[~later], tries[~later]
        if self.layout == "dense" and (tries.ndim or tries == 1):
            done, known = self._dense.ack(ids, added)
            self._complete(done)
            if known.all():
                return
            ids, added = ids[~known], added[~known] if added.ndim else added
            tries = tries[~known] if tries.ndim else tries
        self._complete(self._slots.ack(ids, tries, added, born))

    def ack_range(
        self,
        partition: int,
        offset: int,
        messages: int,
        value: int,
        born: int,
        rows: int = 1,
        circle: Circle | None = None,
    ) -> None:
        """XOR one value into first attempts: the acker's part of a range by the circle under which it was sent."""
        under = circle or self.circle
        for run in Run.of(partition, offset, messages, rows):
            if self.layout == "dense":
                done, rest = self._dense.ack_run(run, value, under)
                self._complete(done)
            else:
                rest = run.roots(under, self.acker)
            self._complete(self._slots.ack(rest, 1, np.uint64(value), born))

    def sweep(self, before: int) -> Expired:
        """Remove the records of slices before this one, and return them in the order of roots."""
        swept = together([self._dense.sweep(before), self._slots.sweep(before)])
        is_in = swept.registered
        return Expired(swept.roots[is_in], swept.attempts[is_in], swept.roots[~is_in], swept.attempts[~is_in])

    def adopt(self, found: Items) -> None:
        """Take over records of other ackers: parts of one attempt are joined."""
        self._end_first_attempts(found.roots, found.attempts)
        done, known = self._dense.ack(found.roots, np.where(found.attempts == 1, found.values, np.uint64(0)))
        self._complete(done)
        self._complete(self._slots.load(found.at(~known)))

    def release(self, circle: Circle) -> Items:
        """Go on under a circle: remove the records that are other ackers' under it, and return them by root."""
        self.circle = circle
        return together([self._dense.release(circle), self._slots.release(circle.owners, self.acker)])

    def drain_completed(self) -> Completed:
        """The roots completed since the last call, with the slices of their registrations."""
        done, self._done = Completed.joined(self._done), []
        return done

    def lows(self) -> dict[int, int]:
        """By partition, the offset of the first root that is registered and not complete."""
        least = np.full(PARTITIONS, NO_ROOT, np.uint64)
        self._dense.lows(least)
        self._slots.lows(least)
        return {int(partition): name_of(int(least[partition])).offset for partition in np.flatnonzero(least != NO_ROOT)}

    def items(self) -> Items:
        """All records, by root."""
        return together([self._dense.items(), self._slots.items()])

    def snapshot(self) -> pa.RecordBatch:
        """All records, by root: the same bytes for the same records, whatever came before."""
        return self.items().batch()

    def _register_run(self, run: Run, values: npt.NDArray[np.uint64], born: int, circle: Circle) -> None:
        """Register a run in the dense layout, with what acks of it came early."""
        early = items([], [], [], [], [])
        if len(self._slots):
            roots = run.roots(circle, self.acker)
            early = self._slots.take(roots)
        if not early.roots.size:
            self._complete(self._dense.register(run, values, born, circle))
            return
        over = early.attempts > 1
        joined, places = np.array(np.broadcast_to(values, roots.shape)), np.searchsorted(roots, early.roots)
        joined[places] = np.where(over, np.uint64(1), joined[places] ^ early.values)
        self._complete(self._dense.register(run, joined, born, circle))
        if over.any():
            self._stale += int(over.sum())
            self._dense.take(early.roots[over])
            self._slots.load(early.at(over))

    def _end_first_attempts(self, roots: Ids, attempts: npt.NDArray[np.integer]) -> None:
        """A later attempt takes the place of a first one."""
        if len(self._dense) and (attempts > 1).any():
            self._dense.take(roots[attempts > 1] if attempts.ndim else roots)

    def _complete(self, done: Completed) -> None:
        if done.roots.size:
            self.completed_count += done.roots.size
            self._done.append(done)

    def _check(self) -> None:
        """Raise `InvariantError` if the table contradicts itself."""
        self._dense._check()
        self._slots._check()
        held = self.items()
        if (np.diff(held.roots.astype(object)) == 0).any() or len(held.roots) != self.in_flight:
            raise InvariantError("a root has two records")
