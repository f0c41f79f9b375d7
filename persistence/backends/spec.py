"""The interface of stores; every backend passes the suite in tests/conformance."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import xxhash

from springline.persistence.errors import StorageUnavailableError

_NOWHERE = "@"  # not the name of any copy


@dataclass(frozen=True, slots=True, order=True)
class File:
    """One file of a generation.

    Args:
        name: below the generation's location, with `/` between folders.
        bytes: its size.
        checksum: of its bytes, xxh3 of 128 bits in hexadecimal; empty if it was not requested.

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
        """Total bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def checksum(self) -> str:
        """One checksum (xxh3, 128 bits) over names, sizes and checksums of all files."""
        lines = "".join(f"{file.name}\t{file.bytes}\t{file.checksum}\n" for file in self.files)
        return xxhash.xxh3_128_hexdigest(os.fsencode(lines))


class Backend(ABC):
    """A store: a tree of locations, each a folder of files that is written once.

    To add a store, subclass it or `ListedBackend`, and test the subclass with `springline.testing.StoreSuite`.

    Locations and file names are relative and use `/`. Every file at a location is part of the generation, except for
    the sidecar `_springline.json` directly in it.

    Errors: `InvalidPathError` for a location outside the root, `StorageFullError`, `StorageUnavailableError` for what
    cannot be determined or done now, `FileNotFoundError` only for what is known to be missing: in an under-store whose
    root is missing or has no mark (`persistence/backends/root_mark.py`) nothing is known. If a disk can no longer read
    some of the bytes of a file, `manifest` raises `CorruptCopyError`.

    Example:
        >>> from springline.testing import platform_in
        >>> with platform_in(folder) as platform, platform.cache.create("a/@1", "part.txt", 4) as file:
        ...     file.write(b"rows")
        ...     platform.cache.exists("a/@1"), platform.cache.exists("b/@1")
        4
        (True, False)
    """

    can_seek = False  # whether `read_range` reads no more than its range

    @abstractmethod
    def uri(self, location: str) -> str:
        """Return the URI under which Spark reads and writes `location`."""

    @abstractmethod
    def exists(self, location: str) -> bool:
        """Whether anything is at `location`."""

    def unavailable_reason(self) -> str:
        """Return why the store does not respond now; empty if it does."""
        try:
            self.exists(_NOWHERE)
        except StorageUnavailableError as error:
            return str(error)
        return ""

    def free_bytes(self) -> int | None:
        """Return how many more bytes its disk takes now; None if that is not known."""
        return None

    def mark_root(self) -> None:  # noqa: B027
        """Create the mark without which an under-store counts as unavailable, before the first copy in it counts.

        A store that a fault may empty, such as a cache, has none.
        """

    @abstractmethod
    def files(self, location: str) -> tuple[File, ...]:
        """Return the files below `location` with their sizes, sorted by name, without checksums and the sidecar."""

    @abstractmethod
    def manifest(self, location: str) -> Manifest:
        """Return the files below `location` with checksums, computed by the store.

        From a store that cannot compute them, the files are read back over the link.
        """

    def holds(self, location: str, sent: Manifest) -> bool:
        """Whether the files below `location` are those of `sent`, which this process wrote by `create`.

        A store whose own checksums prove it need not be read back. Raises FileNotFoundError.
        """
        return self.manifest(location).checksum == sent.checksum

    @abstractmethod
    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        """Yield the bytes of one file, over the link."""

    def read_range(self, location: str, name: str, start: int, size: int) -> bytes:
        """Return up to `size` bytes of one file from byte `start` on, over the link; fewer only at its end.

        A store that cannot seek (`can_seek`) reads the file from its beginning.
        """
        skipped, parts, remaining = 0, [], size
        for chunk in self.chunks(location, name):
            part = chunk[max(start - skipped, 0) :][:remaining]
            skipped += len(chunk)
            parts.append(part)
            remaining -= len(part)
            if not remaining:
                break
        return b"".join(parts)

    @abstractmethod
    def create(self, location: str, name: str, size: int) -> BinaryIO:
        """Open a new file of `size` bytes for writing over the link; closing it makes it durable."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Move a location atomically, durable with all its files; `new` must not exist."""

    @abstractmethod
    def delete(self, location: str) -> None:
        """Remove what is at `location`, if anything is."""

    @abstractmethod
    def locations(self, marker: str) -> Iterator[str]:
        """Yield every location that contains a file named `marker`, except hidden (unfinished) ones."""

    @abstractmethod
    def names(self, location: str) -> tuple[str, ...]:
        """Return the names directly at `location`, including hidden ones, sorted; empty if there are none."""

    @abstractmethod
    def copies(self) -> Iterator[str]:
        """Yield every location whose last part begins with `@` or `.@`: the complete and partial copies."""

    @abstractmethod
    def read_small(self, location: str, name: str) -> bytes:
        """Return the bytes of one small file, not subject to the link's limit."""

    @abstractmethod
    def write_small(self, location: str, name: str, content: bytes) -> None:
        """Write one small file, not subject to the link's limit."""
