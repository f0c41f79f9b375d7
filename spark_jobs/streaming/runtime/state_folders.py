"""The folders of a stage's states on one host: in memory, and on disk for large runs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.runtime.segment_files import SpillFolder
from springline.spark_jobs.streaming.runtime.state_store import StateStore


def check_folder_name(text: str) -> str:
    """Return `text` if it names one folder below whatever it is joined to.

    Raises `StreamError` for an empty text, `.`, `..`, and one with a separator: joined to a path, a text that begins
    with a slash is another place, and what is removed beside it is not the stage's.
    """
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        raise StreamError(f"{text!r} is no name of a folder for the states of a stage")
    return text


@dataclass(frozen=True)
class StateFolders:
    """The folders of the states of a stage's units, in one life of the stage.

    Args:
        memory: the folder in memory; each unit has a subfolder, named by its number.
        spill: the folder on disk for runs of at least `spill_bytes` bytes; None: all are in memory.
        spill_bytes: the least size of a run on disk.

    Example:
        >>> StateFolders(folder / "reduce" / "life").store(0).newest()
    """

    memory: Path
    spill: Path | None = None
    spill_bytes: int = 0

    def folder(self, unit: int) -> Path:
        """Return the folder of the versions of a unit's state."""
        return self.memory / str(unit)

    def store(self, unit: int) -> StateStore:
        """Return the store of the versions of a unit's state."""
        spill = None if self.spill is None else SpillFolder(self.spill / str(unit), self.spill_bytes)
        return StateStore(self.folder(unit), spill)

    def remove_other_lives(self) -> None:
        """Remove the folders beside these, of earlier lives of the stage."""
        for current in filter(None, (self.memory, self.spill)):
            for other in current.parent.glob("*"):
                if other != current:
                    shutil.rmtree(other, ignore_errors=True)
