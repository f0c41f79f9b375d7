"""The interface of stores; every backend passes the suite in tests/conformance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.manifest import File, Manifest

_NOWHERE = "@"  # not the name of any copy


class Backend(ABC):
    """A store: a tree of locations, each a folder of files that is written once, under a name that is used once.

    To add a store, subclass it or `ListedBackend`, and test the subclass with `springline.testing.StoreSuite`. A store
    that may be an under-store is an `UnderStore`.

    Locations and file names are relative and use `/`. Every file at a location is part of the generation, except for
    those directly in it whose names begin with `_springline.json`: its manifest.

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

    @property
    def hadoop_conf(self) -> Mapping[str, str]:
        """Settings of Hadoop's client with which Spark reaches the URIs, by name, such as `fs.s3a.endpoint`."""
        return {}

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

    @abstractmethod
    def files(self, location: str) -> tuple[File, ...]:
        """Return the files below `location` with their sizes, sorted by name, without checksums and the manifest."""

    @abstractmethod
    def manifest(self, location: str) -> Manifest:
        """Return the files below `location` with checksums, computed by the store.

        From a store that cannot compute them, the files are read back over the link.
        """

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
    def delete(self, location: str) -> None:
        """Remove what is at `location`, if anything is."""

    @abstractmethod
    def names(self, location: str) -> tuple[str, ...]:
        """Return the names directly at `location`, sorted; empty if there are none."""

    @abstractmethod
    def copies(self) -> Iterator[str]:
        """Yield every location whose last part begins with `@`: the copies, whether or not they are complete."""


class UnderStore(Backend):
    """A store for persisted copies: durable, and a copy in it exists when its manifest exists.

    Test it with `springline.testing.UnderStoreSuite`.

    Example:
        >>> from springline.testing import platform_in
        >>> with platform_in(folder) as platform:
        ...     with platform.under.create("a/@1-1", "part.txt", 4) as file:
        ...         _ = file.write(b"rows")
        ...     platform.under.publish("a/@1-1", b"{}")
        ...     platform.under.read_manifest("a/@1-1")
        b'{}'
    """

    def mark_root(self) -> None:
        """Create the mark without which the store counts as unavailable, before the first copy in it counts."""

    @property
    def requests(self) -> Mapping[str, int]:
        """Number of requests that this process has sent, by kind, of a store that charges for them; else empty.

        The kinds are `put`, `list`, `get`, `head` and `delete`, and `retry` for those that were repeats.
        """
        return {}

    def sweep_uploads(self, older_than: float) -> int:
        """Remove what uploads have sent that began so many seconds ago and were never completed; returns their number.

        Only stores in which these are stored, invisible, and paid for do anything.
        """
        return 0

    def holds(self, location: str, sent: Manifest) -> bool:
        """Whether the files below `location` are those of `sent`, which this process wrote by `create`.

        A store whose own checksums prove it need not be read back. Raises FileNotFoundError.
        """
        return self.manifest(location).checksum == sent.checksum

    @abstractmethod
    def publish(self, location: str, manifest: bytes) -> None:
        """Make the files at `location` durable, and then the file of the manifest beside them, `_springline.json`.

        A reader finds the manifest whole or not at all. Publishing it once more with the same content is no error: the
        answer to the first attempt may have been lost. Not subject to the link's limit.
        """

    @abstractmethod
    def read_manifest(self, location: str) -> bytes:
        """Return the manifest at `location`, not subject to the link's limit; raises `FileNotFoundError`."""
