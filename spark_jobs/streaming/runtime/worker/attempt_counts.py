"""Counts the attempts of a round in a unit, in a small file beside its state, which survives crashes of the worker."""

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
        """Return the counts of a round in a unit's folder; zero if the file is about another round."""
        stored = read_value(folder / _FILE, _ATTEMPT_COUNTS)
        return stored if stored is not None and stored.round_id == round_id else AttemptCounts(round_id)

    def write(self, folder: Path) -> None:
        """Write the counts to a unit's folder, replacing the previous ones."""
        folder.mkdir(parents=True, exist_ok=True)
        write_value(folder / _FILE, _ATTEMPT_COUNTS, self)

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


_ATTEMPT_COUNTS: Codec[AttemptCounts] = Codec(
    AttemptCounts, 1, "the attempts of a round", "remove the file; counting restarts"
)
