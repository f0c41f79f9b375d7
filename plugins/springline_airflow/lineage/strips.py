"""Strips: the states of a template's partitions as text, a letter each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from springline.persistence.model.dataset import DatasetStatus

MISSING, NOTHING = "m", "."
LETTERS: Mapping[DatasetStatus, str] = {
    DatasetStatus.WRITING: "w",
    DatasetStatus.CACHED: "c",
    DatasetStatus.PERSISTING: "g",
    DatasetStatus.PERSISTED: "p",
    DatasetStatus.EVICTED: "e",
    DatasetStatus.LOST: "l",
    DatasetStatus.IRRECOVERABLE: "x",
}
WORST_FIRST = "xlmwgcep."  # the order in which several states are summed up as one
_DIGITS = re.compile(r"\d")


def merge_strips(strips: Sequence[str], columns: int) -> str:
    """Return the worst letter of each column."""
    return "".join(
        next(letter for letter in WORST_FIRST if letter in letters)
        for letters in (zip(*strips, strict=True) if strips else [NOTHING] * columns)
    )


@lru_cache(maxsize=65_536)
def shape_of(partition: str) -> str:
    """Return a partition with 9 for each digit: days have one shape, hours another."""
    return _DIGITS.sub("9", partition)


def mark_missing(strip: str, shown: Sequence[str], expected: Collection[str]) -> str:
    """Return the strip with a mark at each gap between its first and its last partition that others of its DAG have."""
    begin, end = len(strip) - len(strip.lstrip(NOTHING)), len(strip.rstrip(NOTHING))
    if NOTHING not in strip[begin:end]:
        return strip
    return "".join(
        MISSING if letter == NOTHING and begin <= i < end and shown[i] in expected else letter
        for i, letter in enumerate(strip)
    )
