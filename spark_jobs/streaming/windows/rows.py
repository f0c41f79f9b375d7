"""Decoded rows: columns of a chunk of rows, and where each row came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.streaming.unitlog.step import DeadLetter, Message
from spark_jobs.streaming.windows.tables import EVERYWHERE, Flags, Ints


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of int64 or float64; where `valid` is false it is null (empty: nowhere). NaN counts as null."""

    values: npt.NDArray[Any]
    valid: Flags = field(default_factory=lambda: EVERYWHERE)

    def taken(self, rows: Any) -> Numbers:
        """Only those rows, given by index or by a flag each."""
        return Numbers(self.values[rows], self.valid[rows] if self.valid.size else self.valid)


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of UTF-8 texts that lie in `data`; a length below 0 is null."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: npt.NDArray[np.int32]

    def taken(self, rows: Any) -> Texts:
        """Only those rows, given by index or by a flag each."""
        return Texts(self.data, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column of texts that came as a dictionary; an index below 0 is null."""

    texts: Texts
    indices: Ints

    def taken(self, rows: Any) -> Indexed:
        """Only those rows, given by index or by a flag each."""
        return Indexed(self.texts, self.indices[rows])


Column = Numbers | Texts | Indexed


@dataclass(frozen=True)
class Source:
    """The messages that a chunk was decoded from.

    `firsts` is the row that each message begins with, counted before any was refused. `original` gives the bytes of
    such rows of one message.
    """

    messages: Sequence[Message]
    firsts: Ints
    original: Callable[[Ints], bytes]

    def letters(self, rows: Ints, reason: Callable[[int, int], str]) -> Iterable[DeadLetter]:
        """One letter a message for the rows; `reason` is told the first of them, and its number in its message."""
        which = np.searchsorted(self.firsts, rows, side="right") - 1
        for index in np.unique(which):
            mine = rows[which == index]
            first = int(mine[0])
            place = first - int(self.firsts[index]) + 1
            many = f"{mine.size} rows, the first is row {place}" if mine.size > 1 else f"row {place}"
            yield DeadLetter(self.messages[index].offset, self.original(mine), f"{many}: {reason(first, place)}")


@dataclass(frozen=True)
class Chunk:
    """Rows in the order of their unit; `kept` is where they were in their source before some were refused."""

    times: Ints
    columns: Mapping[str, Column]
    source: Source
    kept: Ints

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.times.size)

    def taken(self, flags: Flags) -> Chunk:
        """Only those rows."""
        columns = {name: column.taken(flags) for name, column in self.columns.items()}
        return Chunk(self.times[flags], columns, self.source, self.kept[flags])
