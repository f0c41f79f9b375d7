"""The stored tuples of one side of a unit: a few runs, the larger ones first, merged as in an LSM tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.streaming.join.buckets import chosen
from spark_jobs.streaming.join.forms import Piece
from spark_jobs.streaming.join.runs import Run, merged, run_of

_TIMES = 4  # a run is merged with the next one while it is at most so many times as long
_MOST_BYTES = 1 << 30  # of a run that is made by merging: offsets of texts in it fit 32 bits, and no step takes long


@dataclass(frozen=True)
class Store:
    """Runs of one side; nothing changes in place."""

    runs: tuple[Run, ...] = ()

    @staticmethod
    def of(batches: tuple[pa.RecordBatch, ...]) -> Store:
        """From a state's batches."""
        return Store(tuple(Run(batch) for batch in batches))

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """For a state; a run that was there before is the same object."""
        return tuple(run.batch for run in self.runs)

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes of all values."""
        return sum(run.bytes for run in self.runs)

    def plus(self, run: Run | None) -> Store:
        """With one more run, not merged yet."""
        return self if run is None else Store((*self.runs, run))

    def settled(self) -> Store:
        """With small runs merged; of a cascade only the last run is left, so only that is written."""
        runs = sorted(self.runs, key=len, reverse=True)
        while len(runs) > 1 and len(runs[-2]) <= _TIMES * len(runs[-1]):
            if runs[-2].bytes + runs[-1].bytes > _MOST_BYTES:
                break
            newer = runs.pop()
            runs[-1] = merged(runs[-1], newer)
        return self if tuple(runs) == self.runs else Store(tuple(runs))

    def extract(self, piece: Piece, before: int) -> Iterator[pa.RecordBatch]:
        """The tuples of a piece with seqs below `before`, in the order of (key, seq) within each batch."""
        for run in self.runs:
            place = run.between(piece.keys)
            found = run.batch.slice(place.start, place.stop - place.start)
            mask = _meant(run, place, piece, before)
            if mask.any():
                yield found if mask.all() else found.filter(pa.array(mask))

    def without(self, piece: Piece, before: int) -> tuple[Store, int]:
        """Without the tuples of a piece with seqs below `before`, and how many they were."""
        runs: list[Run] = []
        dropped = 0
        for run in self.runs:
            place = run.between(piece.keys)
            mask = np.zeros(len(run), np.bool_)
            mask[place] = _meant(run, place, piece, before)
            count = int(mask.sum())
            dropped += count
            if not count:
                runs.append(run)
            elif count < len(run):
                runs.append(run_of(run.batch.filter(pa.array(~mask))))
        return (Store(tuple(runs)), dropped) if dropped else (self, 0)


def _meant(run: Run, place: slice, piece: Piece, before: int) -> np.ndarray:
    seqs = run.seqs[place]
    return np.asarray(chosen(piece, run.keys[place], seqs) & (seqs < before))
