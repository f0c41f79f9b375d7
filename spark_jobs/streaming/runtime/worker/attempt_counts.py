"""Counts the attempts of rounds in a unit, in a small file beside its state, which survives crashes of the worker.

The file has several rounds, since the step of one runs while the one before is committed, and may crash the worker:
then both begin again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.message_log import RoundId

_FILE = "attempts.json"
_VARYING = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)  # in messages of errors: addresses, sizes, offsets


@dataclass(frozen=True)
class AttemptCounts:
    """Attempts of the round `round_id`: started, failed, and failed consecutively for the same cause."""

    round_id: RoundId
    started: int = 0
    failures: int = 0
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
        write_value(folder / _FILE, _ATTEMPT_COUNTS, [self, *later] if self.started else later)

    @property
    def crashes(self) -> int:
        """Number of attempts that ended without a recorded failure, by a crash or a kill."""
        return self.started - self.failures

    def with_start(self) -> AttemptCounts:
        """Return the counts with one more started attempt."""
        return replace(self, started=self.started + 1)

    def with_failure(self, cause: str) -> AttemptCounts:
        """Return the counts after a failure of the newest attempt."""
        same = _VARYING.sub("#", cause)
        return replace(
            self, failures=self.failures + 1, same_cause=self.same_cause + 1 if same == self.cause else 1, cause=same
        )


def _read_all(folder: Path) -> list[AttemptCounts]:
    return read_value(folder / _FILE, _ATTEMPT_COUNTS) or []


_ATTEMPT_COUNTS: Codec[list[AttemptCounts]] = Codec(
    list[AttemptCounts], 1, "the attempts of rounds", "remove the file; counting restarts"
)
