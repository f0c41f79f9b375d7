"""The records of running servers, one JSON file each under `run/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.persistence.private_files import create_private_folder
from springline.services.errors import RunStateError


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process that was started; its process id is also the id of its session and of its first process group."""

    name: str
    pid: int
    started_at: float  # from the operating system, seconds since 1970
    log: str
    stop_signal: int = 15  # the signal that asks it to end


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One started server; `token` is in the environment of all its processes."""

    server: str
    token: str
    folder: str
    address: str
    ports: Mapping[str, int]
    processes: tuple[ProcessRecord, ...]


_RECORD_CODEC: Codec[ServerRecord] = Codec(
    ServerRecord, 1, "the record of a server", "stop it with the version of Springline that started it"
)


class ServerRecords:
    """The folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, server: str) -> Path:
        """Return the path of a server's record."""
        return self.folder / f"{server}.json"

    def names(self) -> tuple[str, ...]:
        """Return the servers that have a record, running or not."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.json")))

    def load(self, server: str) -> ServerRecord | None:
        """Load the record of `server`, or None if it has none; raises `RunStateError` if the file is damaged."""
        path = self.path(server)
        try:
            return _RECORD_CODEC.decode(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except DecodeError as error:
            raise RunStateError(f"{error}: stop {server} if it is running, and remove that file") from error

    def save(self, record: ServerRecord) -> None:
        """Write the record atomically."""
        create_private_folder(self.folder)
        half = self.path(record.server).with_suffix(".half")
        half.write_bytes(msgspec.json.format(_RECORD_CODEC.encode(record), indent=2) + b"\n")
        half.replace(self.path(record.server))

    def forget(self, server: str) -> None:
        """Delete the record of `server`."""
        self.path(server).unlink(missing_ok=True)
