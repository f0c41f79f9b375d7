"""Base for remote stores: a tree of folders that can only be listed one at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import xxhash

from springline.persistence.backends.spec import Backend
from springline.persistence.errors import InvalidPathError
from springline.persistence.model.manifest import File, Manifest, is_reserved


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or folder directly in a folder, as the store lists it for `ListedBackend`.

    Args:
        name: without any `/`.
        is_folder: whether it is a folder itself.
        bytes: its size, if it is a file.

    Example:
        >>> FolderEntry("part-0.parquet", False, 1_000).bytes
        1000
    """

    name: str
    is_folder: bool
    bytes: int = 0


# Lists a folder by its location, "" being the root; raises FileNotFoundError if it is not a folder.
FolderLister = Callable[[str], Sequence[FolderEntry]]


class ListedBackend(Backend):
    """A store that can only list one folder at a time, and whose bytes are verified by reading them back.

    A subclass implements `_entries`, which lists a folder, and the other methods of `Backend`: `exists`, `files`,
    `chunks`, `create`, `delete` and `names`. One that may be an under-store is an `UnderStore` too.

    Args:
        uri: of the store's root, such as `hdfs://namenode:8020/springline`.
        server: the beginning of `uri` that names the server, such as `hdfs://namenode:8020`.

    Raises:
        InvalidPathError: from every method, for a location outside of the root.

    Example:
        A complete store of this kind is in docs/howto.md::

            class RememberingBackend(ListedBackend):
                def __init__(self):
                    super().__init__("memory://here/root", "memory://here")
    """

    def __init__(self, uri: str, server: str) -> None:
        self._uri = uri.rstrip("/")
        self._root = self._uri.removeprefix(server)

    @abstractmethod
    def _entries(self, location: str) -> Sequence[FolderEntry]:
        """List the folder at `location`, "" being the root; raises FileNotFoundError if it is not a folder."""

    def uri(self, location: str) -> str:
        # Hadoop takes a path literally; a percent-encoded one would name another file.
        return f"{self._uri}/{checked_below(self._uri, location)}"

    def manifest(self, location: str) -> Manifest:
        return Manifest(tuple(File(f.name, f.bytes, self._checksum(location, f.name)) for f in self.files(location)))

    def copies(self) -> Iterator[str]:
        return copies_below(self._entries)

    def _path(self, *texts: str) -> str:
        return f"{self._root}/{checked_below(self._uri, *texts)}"

    def _folder(self, location: str) -> str:
        """Return the path of a folder found by a walk, or of the root."""
        return f"{self._root}/{location}" if location else self._root or "/"

    def _checksum(self, location: str, name: str) -> str:
        hasher = xxhash.xxh3_128()
        for chunk in self.chunks(location, name):
            hasher.update(chunk)
        return hasher.hexdigest()


def checked_below(where: str, *texts: str) -> str:
    """Join `texts` to a relative path, after checking that none of them leads out of its root.

    Args:
        where: the root, for the error.
        texts: parts of the path; each may contain `/`.

    Raises:
        InvalidPathError: a part is empty, absolute, or contains `..` or a NUL.

    Example:
        >>> checked_below("memory://here", "etl/clean/@1", "part-0.parquet")
        'etl/clean/@1/part-0.parquet'
    """
    for text in texts:
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts or "\0" in text:
            raise InvalidPathError(f"{text!r} in {where} is not a path below it")
    return str(PurePosixPath(*texts))


def files_below(entries: FolderLister, top: str) -> Iterator[File]:
    """Yield every file below `top` that is part of a generation, in folders of any depth, without checksums.

    Args:
        entries: lists a folder by its location, the root being `""`; raises `FileNotFoundError` if it is not a folder.
        top: the location to begin with.

    Raises:
        FileNotFoundError: `top` is not a folder.

    Example:
        >>> top = [FolderEntry("x", True), FolderEntry("_springline.json", False)]
        >>> tree = {"a/@1": top, "a/@1/x": [FolderEntry("part", False, 10)]}
        >>> list(files_below(lambda location: tree[location], "a/@1"))
        [File(name='x/part', bytes=10, checksum='')]
    """
    for entry in entries(top):
        if not is_reserved(entry.name):
            yield from _walk_files(entries, top, entry, "")


def copies_below(entries: FolderLister) -> Iterator[str]:
    """Yield every folder whose name begins with `@`, without descending into it."""
    for location, name in _walk_folders(entries, ""):
        if name.startswith("@"):
            yield location


def _walk_folders(entries: FolderLister, top: str) -> Iterator[tuple[str, str]]:
    pending = [(top, "")]
    while pending:
        location, name = pending.pop()
        if name:
            yield location, name
        if not name.startswith("@"):
            children = _list_if_present(entries, location)
            pending += [(_join(location, e.name), e.name) for e in children if e.is_folder]


def _walk_files(entries: FolderLister, top: str, entry: FolderEntry, parent: str) -> Iterator[File]:
    name = _join(parent, entry.name)
    if not entry.is_folder:
        yield File(name, entry.bytes)
        return
    for inner in _list_if_present(entries, f"{top}/{name}"):
        yield from _walk_files(entries, top, inner, name)


def _list_if_present(entries: FolderLister, location: str) -> Sequence[FolderEntry]:
    """List a folder; one that is deleted during the walk counts as empty."""
    try:
        return entries(location)
    except FileNotFoundError:
        return ()


def _join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name
