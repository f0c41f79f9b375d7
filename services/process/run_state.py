"""What is remembered of a running server, in one JSON file each under `run/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.persistence.private_files import private_folder
from springline.services.errors import RunStateError


@dataclass(frozen=True, slots=True)
class Started:
    """One process that was started: its id is also its session's and its first group's."""

    name: str
    pid: int
    started: float  # as the operating system tells it, seconds since 1970
    log: str
    stop: int = 15  # the signal that asks it to end


@dataclass(frozen=True, slots=True)
class Record:
    """One started server. `token` stands in the environment of all that it starts."""

    server: str
    token: str
    folder: str
    address: str
    ports: Mapping[str, int]
    processes: tuple[Started, ...]


_RECORDS: Codec[Record] = Codec(
    Record, 1, "the record of a server", "the version of Springline that started it knows how to end it"
)


class Records:
    """The folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, server: str) -> Path:
        """The file of one server's record."""
        return self.folder / f"{server}.json"

    def names(self) -> tuple[str, ...]:
        """The servers that have a record, running or not."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.json")))

    def load(self, server: str) -> Record | None:
        """The record of `server`, if it has one; raises `RunStateError`."""
        path = self.path(server)
        try:
            return _RECORDS.decode(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except DecodeError as error:
            raise RunStateError(f"{error}: end {server} if it runs, and remove that file") from error

    def save(self, record: Record) -> None:
        """Write the record whole or not at all."""
        private_folder(self.folder)
        half = self.path(record.server).with_suffix(".half")
        half.write_bytes(msgspec.json.format(_RECORDS.encode(record), indent=2) + b"\n")
        half.replace(self.path(record.server))

    def forget(self, server: str) -> None:
        """Remove the record of `server`."""
        self.path(server).unlink(missing_ok=True)
