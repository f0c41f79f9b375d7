"""Candidates: the stored rows that may match probes, as an index finds them, with the place to resume at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.task.segments import Ints


@dataclass(frozen=True, slots=True)
class CandidateCursor:
    """Position to resume at: the part of the index, the probe, and the candidates of this probe to skip."""

    part: int = 0
    probe: int = 0
    skip: int = 0


@dataclass(frozen=True)
class CandidateRows:
    """Candidates of consecutive probes in one part of an index, from `start` on: their probes, and their places."""

    start: CandidateCursor
    probes: npt.NDArray[np.int32]
    places: npt.NDArray[np.uint32]

    def cursor_at(self, candidate: int) -> CandidateCursor:
        """Return the cursor of a candidate."""
        probe = int(self.probes[candidate])
        skip = candidate - int(np.searchsorted(self.probes, probe))
        return CandidateCursor(self.start.part, probe, skip + (self.start.skip if probe == self.start.probe else 0))


class TupleIndex(Protocol):
    """An index of the rows of a store: places of rows by key."""

    @property
    def needs_sorted_probes(self) -> bool:
        """Whether probes are to be sorted by key."""

    @property
    def runs(self) -> tuple[int, ...]:
        """The first place of each part that is built at once; for a state."""

    @property
    def bytes(self) -> int:
        """Bytes of memory."""

    def append(self, keys: Ints, place: int) -> None:
        """Insert rows, the first of them at `place`, which is above all others."""

    def remove(self, keys: Ints, places: Ints) -> None:
        """Remove rows."""

    def remove_until(self, place: int) -> None:
        """Remove all rows up to a place."""

    def settle(self) -> None:
        """Merge what was appended."""

    def candidates(self, keys: Ints, cursor: CandidateCursor, capacity: int) -> Iterator[CandidateRows]:
        """Yield the rows that may match the keys, in parts of at most `capacity`, from a cursor on."""
