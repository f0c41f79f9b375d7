"""How often a round was tried in a unit: a small file beside its state, which outlives the worker that tries."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.message_log import Order

_FILE = "tries.json"
_VARIES = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)  # in what an error says: addresses, sizes, places


@dataclass(frozen=True)
class Tries:
    """Of the round `order`: how often it was begun, failed, and how often in a row it failed for the same cause."""

    order: Order
    begun: int = 0
    failed: int = 0
    alike: int = 0
    cause: str = ""

    @staticmethod
    def read(folder: Path, order: Order) -> Tries:
        """Those of a round in a unit's folder, from which those of other rounds are gone."""
        told = read_value(folder / _FILE, _TRIES)
        return told if told is not None and told.order == order else Tries(order)

    def write(self, folder: Path) -> None:
        """Leave them in a unit's folder, in place of those that are there."""
        folder.mkdir(parents=True, exist_ok=True)
        write_value(folder / _FILE, _TRIES, self)

    @property
    def died(self) -> int:
        """How often whoever tried it died, or was ended."""
        return self.begun - self.failed

    def begin(self) -> Tries:
        """With one more."""
        return replace(self, begun=self.begun + 1)

    def fail(self, cause: str) -> Tries:
        """After the newest one has failed."""
        same = _VARIES.sub("#", cause)
        return replace(self, failed=self.failed + 1, alike=self.alike + 1 if same == self.cause else 1, cause=same)


_TRIES: Codec[Tries] = Codec(Tries, 1, "the tries of a round", "remove the file, and they are counted anew")
