"""The contract of a place that holds bytes: every backend passes tests/conformance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import xxhash

from springline.persistence.errors import StorageUnavailableError

_NOWHERE = "@"  # the name of no copy


@dataclass(frozen=True, slots=True, order=True)
class File:
    """One file of a generation.

    Args:
        name: below the generation's location, with `/` between folders.
        bytes: its size.
        checksum: of its bytes, xxh3 of 128 bits in hexadecimal; empty where it was not asked for.

    Example:
        >>> File("part-0.parquet", 1_000).bytes
        1000
    """

    name: str
    bytes: int
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a generation, and one checksum over all of them.

    Args:
        files: sorted by name.

    Example:
        >>> manifest = Manifest((File("a", 3, "4f"), File("b", 4, "e0")))
        >>> manifest.bytes, len(manifest.checksum)
        (7, 32)
    """

    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def checksum(self) -> str:
        """One checksum (xxh3, 128 bits) over names, sizes and checksums of all files."""
        lines = "".join(f"{file.name}\t{file.bytes}\t{file.checksum}\n" for file in self.files)
        return xxhash.xxh3_128_hexdigest(lines.encode())


class Backend(ABC):
    """A store: a tree of locations, each a folder of files that is written once.

    Inherit it, or `ListedBackend`, for a store of your own, and hold that to `springline.testing.StoreSuite`.
    Locations and file names are relative and use `/`. Files whose name begins with `.` or `_` are
    the writer's own (success marks, checksums of Hadoop) and not part of a generation.
    Errors: `InvalidPathError` for a location outside the root, `StorageFullError`, `StorageUnavailableError` for what
    cannot be told or done now, `FileNotFoundError` only for what is known not to be there: of an under-store whose
    root vanished or has no mark (`persistence/backends/root_mark.py`) nothing is known. Where a disk cannot read some
    of its bytes any more, the others being there, `manifest` raises `CorruptCopyError`.

    Example:
        >>> from springline.testing import platform_in
        >>> with platform_in(folder) as platform, platform.cache.create("a/@1", "part.txt", 4) as file:
        ...     file.write(b"rows")
        ...     platform.cache.exists("a/@1"), platform.cache.exists("b/@1")
        4
        (True, False)
    """

    @abstractmethod
    def uri(self, location: str) -> str:
        """The URI under which Spark reads and writes `location`."""

    @abstractmethod
    def exists(self, location: str) -> bool:
        """Whether anything is at `location`."""

    def why_away(self) -> str:
        """Why the store cannot be asked now, whatever there is to say of any one location; empty: it answers."""
        try:
            self.exists(_NOWHERE)
        except StorageUnavailableError as error:
            return str(error)
        return ""

    def mark_root(self) -> None:  # noqa: B027
        """Leave the mark without which an under-store counts as away, before the first copy in it counts.

        A store that may be emptied by a fault, as a cache may, has none.
        """

    @abstractmethod
    def files(self, location: str) -> tuple[File, ...]:
        """The files below `location` with their sizes, sorted by name, checksums left empty."""

    @abstractmethod
    def manifest(self, location: str) -> Manifest:
        """The files below `location` with checksums, worked out where the bytes are.

        A store that cannot do that is read back, across the link.
        """

    def holds(self, location: str, sent: Manifest) -> bool:
        """Whether the files below `location` are those of `sent`, which this process wrote by `create`.

        A store whose own checksums prove it need not be read back. Raises FileNotFoundError.
        """
        return self.manifest(location).checksum == sent.checksum

    @abstractmethod
    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        """The bytes of one file, across the link."""

    @abstractmethod
    def create(self, location: str, name: str, size: int) -> BinaryIO:
        """Open a new file of `size` bytes for writing across the link; closing it makes it durable."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Move a location in one step, durable with all its files; `new` must not exist."""

    @abstractmethod
    def delete(self, location: str) -> None:
        """Remove what is at `location`, if anything is."""

    @abstractmethod
    def locations(self, marker: str) -> Iterator[str]:
        """Every location that holds a file named `marker`, hidden (unfinished) ones left out."""

    @abstractmethod
    def names(self, location: str) -> tuple[str, ...]:
        """What lies directly at `location`, hidden names too, sorted; empty if nothing does."""

    @abstractmethod
    def copies(self) -> Iterator[str]:
        """Every location whose last part begins with `@` or `.@`: the copies of generations, whole and half."""

    @abstractmethod
    def read_small(self, location: str, name: str) -> bytes:
        """The bytes of one small file, past the link's limit."""

    @abstractmethod
    def write_small(self, location: str, name: str, content: bytes) -> None:
        """Write one small file, past the link's limit."""


def visible(name: str) -> bool:
    """Whether a file of this relative name is part of a generation."""
    return not any(part[0] in "._" for part in name.split("/"))
