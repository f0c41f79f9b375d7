"""Counts the failed attempts of rounds in a unit, in files beside its state, which survive crashes of the worker.

    FOLDER/running          the round whose step runs, in 16 bytes; they remain if its process dies
    FOLDER/attempts.json    the counts of rounds that have failed, written after a failure

The counts are of several rounds, since the step of one runs while the one before is committed, and may crash the
worker: then both begin again.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.atomic_files import full_disk_named, read_value, write_value
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, RoundId

_FILE = "attempts.json"
_RUNNING_FILE = "running"
_RUNNING = struct.Struct("<qq")  # incarnation and number of a round; zeros: none
_VARYING = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)  # in messages of errors: addresses, sizes, offsets


@dataclass(frozen=True)
class AttemptCounts:
    """Failed attempts of the round `round_id`: those that ended with their process, and those that failed consecutively
    for the same cause.
    """

    round_id: RoundId
    crashes: int = 0
    same_cause: int = 0
    cause: str = ""

    @staticmethod
    def read(folder: Path, round_id: RoundId) -> AttemptCounts:
        """Return the counts of a round in a unit's folder; zero if the file has none."""
        return next((each for each in _read_all(folder) if each.round_id == round_id), AttemptCounts(round_id))

    def write(self, folder: Path) -> None:
        """Write the counts to a unit's folder, replacing the previous ones of this round, and those of earlier ones."""
        folder.mkdir(parents=True, exist_ok=True)
        later = [each for each in _read_all(folder) if each.round_id > self.round_id]
        write_value(folder / _FILE, _ATTEMPT_COUNTS, [self, *later])

    @property
    def has_failed(self) -> bool:
        """Whether an attempt has failed."""
        return bool(self.crashes or self.same_cause)

    def with_crash(self) -> AttemptCounts:
        """Return the counts after an attempt that ended with its process, by a crash or a kill."""
        return replace(self, crashes=self.crashes + 1)

    def with_failure(self, cause: str) -> AttemptCounts:
        """Return the counts after an attempt that has failed with this cause."""
        same = _VARYING.sub("#", cause)
        return replace(self, same_cause=self.same_cause + 1 if same == self.cause else 1, cause=same)


@contextmanager
def running(folder: Path, round_id: RoundId) -> Iterator[AttemptCounts]:
    """While inside, the step of a round runs in a unit; yields the counts of its earlier attempts.

    If the process dies meanwhile, whoever runs the next step here counts a crash of this round. Raises `DiskFullError`.
    """
    with full_disk_named(folder):
        file = _open(folder / _RUNNING_FILE)
    try:
        crashed: RoundId = _RUNNING.unpack(os.pread(file, _RUNNING.size, 0).ljust(_RUNNING.size, b"\0"))
        if crashed != NO_ROUND:
            AttemptCounts.read(folder, crashed).with_crash().write(folder)
        with full_disk_named(folder):
            os.pwrite(file, _RUNNING.pack(*round_id), 0)
        try:
            yield AttemptCounts.read(folder, round_id)
        finally:
            os.pwrite(file, _RUNNING.pack(*NO_ROUND), 0)
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """Open a file for reading and writing, created with its folder if it does not exist."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _read_all(folder: Path) -> list[AttemptCounts]:
    return read_value(folder / _FILE, _ATTEMPT_COUNTS) or []


_ATTEMPT_COUNTS: Codec[list[AttemptCounts]] = Codec(
    list[AttemptCounts], 1, "the attempts of rounds", "remove the file; counting restarts"
)
