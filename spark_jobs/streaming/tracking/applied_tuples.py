"""Which tuples of unfinished messages a step has applied: so that none is applied twice, and an audit can be answered.

The tuples of a message for one receiver are numbered, in every attempt alike, so what was applied of it is a set of
ranges of numbers; without losses it is one range. Below the low watermarks every root is finished: what was applied of
it is dropped, and a tuple that still arrives late is not applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.tracking.ids import Ids, Mask
from springline.spark_jobs.streaming.tracking.root_id import OFFSET_BITS, PARTITION_BITS, ROW_BITS

APPLIED = "applied"  # its name in the scalars and the runs of a state
_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in (
        ("message", pa.uint64()), ("first", pa.uint32()), ("end", pa.uint32()),
    )]
)  # fmt: skip
_SMALL = 8  # most runs of about the same size
_OFFSET = np.uint64((1 << OFFSET_BITS) - 1)
_OFFSET_SHIFT = np.uint64(OFFSET_BITS)

_Ranges = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]  # messages, first numbers, ends


class AppliedTuples:
    """The ranges of a state, and those that a round adds.

    `last` is by partition the last message, and the end of its last range: what comes after it is new.
    """

    def __init__(
        self, low_watermarks: Ids, runs: Sequence[pa.RecordBatch] = (), last: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self._low_watermarks = low_watermarks
        self._runs = tuple(runs)
        self._last = {int(partition): (message, end) for partition, (message, end) in (last or {}).items()}
        self._added: list[_Ranges] = []
        self._bitmaps: dict[int, Mask] = {}  # of messages that were searched since the last range was added
        self._sorted: _Ranges | None = None

    def add(self, roots: Ids, firsts: npt.ArrayLike, counts: npt.ArrayLike) -> Mask | None:
        """Add tuples; return which of them are to be applied: those that are new, and not below the low watermarks.

        Of tuples that occur twice in one call, one is new. None means all: which is determined by comparing the
        messages, if they follow those before.

        Args:
            roots: the ids of messages or of their rows.
            firsts: for each, the number of the first tuple, among those of the message for this receiver.
            counts: for each, the number of tuples.
        """
        messages, begins = roots >> np.uint64(ROW_BITS), np.asarray(firsts, np.int64)
        ends = begins + np.asarray(counts, np.int64)
        if not messages.size:
            return None
        partition = int(messages[0]) >> OFFSET_BITS
        last = self._last.get(partition, (-1, 0))
        if self._is_open(messages[:1]).all() and _follow(messages, begins, ends, *last):
            self._append(messages, begins, ends)
            self._bitmaps.clear()
            return None
        return self._add_searching(messages, begins, ends)

    def find(self, roots: Ids, firsts: npt.ArrayLike, counts: npt.ArrayLike) -> Mask:
        """Return which of some tuples were applied; arguments as those of `add`."""
        messages, begins = roots >> np.uint64(ROW_BITS), np.asarray(firsts, np.int64)
        parts = [
            self._bitmap(message, end)[first:end]
            for message, first, end in zip(
                messages.tolist(), begins.tolist(), (begins + np.asarray(counts, np.int64)).tolist(), strict=True
            )
        ]
        return np.concatenate([np.empty(0, np.bool_), *parts])

    def runs(self) -> tuple[pa.RecordBatch, ...]:
        """Return the runs of the next state: with what was added, without what is below the low watermarks."""
        runs = [run for each in self._runs if (run := self._without_finished(each)) is not None]
        if self._added:
            batch = _sorted_run(self._added)
            if (run := self._without_finished(batch)) is not None:
                runs.append(run)
        return tuple(_merge_runs(runs))

    def last(self) -> dict[str, list[int]]:
        """Return the last message and end, by partition, for the scalars of the next state."""
        return {str(partition): list(self._last[partition]) for partition in sorted(self._last)}

    def _add_searching(self, messages: Ids, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Mask:
        is_new = np.zeros(int((ends - begins).sum()), np.bool_)
        ranges: list[tuple[int, int, int]] = []
        rows = zip(self._is_open(messages).tolist(), messages.tolist(), begins.tolist(), ends.tolist(), strict=True)
        place = 0
        for is_open, message, first, end in rows:
            if is_open:
                applied = self._bitmap(message, end)[first:end]
                is_new[place : place + end - first] = ~applied
                ranges += ((message, first + start, first + stop) for start, stop in _runs_of(~applied))
                applied[:] = True
            place += end - first
        if ranges:
            added = np.array(ranges, np.int64)
            self._append(*_sort_ranges([(added[:, 0].astype(np.uint64), added[:, 1], added[:, 2])]))
        return is_new

    def _append(self, messages: Ids, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        self._added.append((messages, begins, ends))
        self._sorted = None
        cuts = np.flatnonzero(np.diff(messages >> _OFFSET_SHIFT))
        for place in (*cuts.tolist(), messages.size - 1):
            message = int(messages[place])
            end = int(ends[messages == messages[place]].max())
            partition = message >> OFFSET_BITS
            self._last[partition] = max(self._last.get(partition, (-1, 0)), (message, end))

    def _bitmap(self, message: int, size: int) -> Mask:
        """Return which tuples of a message were applied, by number, at least the first `size` of them."""
        bitmap = self._bitmaps.get(message)
        if bitmap is None:
            if self._sorted is None:
                self._sorted = _sort_ranges([*map(_columns, self._runs), *self._added])
            messages, begins, ends = self._sorted
            begin, end = np.searchsorted(messages, np.array([message, message + 1], np.uint64))
            bitmap = np.zeros(max(size, int(ends[begin:end].max(initial=0))), np.bool_)
            for first, stop in zip(begins[begin:end].tolist(), ends[begin:end].tolist(), strict=True):
                bitmap[first:stop] = True
        elif bitmap.size < size:
            bitmap = np.concatenate([bitmap, np.zeros(max(size, 2 * bitmap.size) - bitmap.size, np.bool_)])
        self._bitmaps[message] = bitmap
        return bitmap

    def _is_open(self, messages: Ids) -> Mask:
        offsets, partitions = messages & _OFFSET, messages >> _OFFSET_SHIFT
        is_open: Mask = offsets >= self._low_watermarks[partitions]
        return is_open

    def _without_finished(self, run: pa.RecordBatch) -> pa.RecordBatch | None:
        """Drop what is below the low watermarks from a run, if it is at least half of it; None if nothing remains."""
        messages = run.column("message").to_numpy()
        left = run.num_rows - _count_finished(messages, self._low_watermarks)
        if not left:
            return None
        return run if left * 2 > run.num_rows else run.filter(pa.array(self._is_open(messages)))


def _columns(run: pa.RecordBatch) -> _Ranges:
    message, first, end = (run.column(name).to_numpy() for name in _SCHEMA.names)
    return message, first, end


def _sorted_run(parts: Sequence[_Ranges]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(_sort_ranges(parts), _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _sort_ranges(parts: Sequence[_Ranges]) -> _Ranges:
    messages, begins, ends = (
        np.concatenate([np.empty(0, kind), *(part[column] for part in parts)]).astype(kind, copy=False)
        for column, kind in enumerate((np.uint64, np.int64, np.int64))
    )
    order = np.lexsort((begins, messages))
    return messages[order], begins[order], ends[order]


def _runs_of(selected: Mask) -> list[tuple[int, int]]:
    """Return the ranges of numbers that are selected."""
    edges = np.flatnonzero(np.diff(selected, prepend=False, append=False))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _merge_runs(runs: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Limit the number of runs: several of about the same size at the end are merged into one, by message."""
    merged = list(runs)
    while (len(merged) > _SMALL and merged[-_SMALL].num_rows <= 4 * merged[-1].num_rows) or len(merged) > 4 * _SMALL:
        merged[-_SMALL:] = [_sorted_run([_columns(run) for run in merged[-_SMALL:]])]
    return merged


@njit(cache=True, nogil=True)
def _follow(messages, begins, ends, last_message, last_end):  # type: ignore[no-untyped-def]
    """Return whether ranges are of one partition, and each is after all before it, the first one after the last."""
    message, end = np.int64(last_message), np.int64(last_end)
    partition = messages[0] >> _OFFSET_SHIFT
    for row in range(messages.size):
        number = np.int64(messages[row])
        if number < message or (number == message and begins[row] < end):
            return False
        if messages[row] >> _OFFSET_SHIFT != partition:
            return False
        message, end = number, ends[row]
    return True


@njit(cache=True, nogil=True)
def _count_finished(messages, low_watermarks):  # type: ignore[no-untyped-def]
    """Return how many ranges of a run are below the low watermarks, by two searches a partition of its messages."""
    begin = finished = 0
    while begin < messages.size:
        partition = messages[begin] >> _OFFSET_SHIFT
        first = partition << _OFFSET_SHIFT
        finished += np.searchsorted(messages[begin:], first + low_watermarks[partition])
        begin += np.searchsorted(messages[begin:], first + _OFFSET + np.uint64(1))
    return finished


def read_low_watermarks(broadcast_values: Mapping[str, Any]) -> Ids:
    """Return the low watermarks that a round names: an offset for each possible partition."""
    low_watermarks = np.zeros(1 << PARTITION_BITS, np.uint64)
    for partition, offset in broadcast_values["low_watermarks"]["low_watermarks"].items():
        low_watermarks[int(partition)] = offset
    return low_watermarks
