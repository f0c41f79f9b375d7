"""What remote stores have in common: a tree of folders that can only be listed one at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import xxhash

from springline.persistence.backends.spec import Backend, File, Manifest, visible
from springline.persistence.errors import InvalidPathError


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies directly in a folder, as `ListedBackend` is told by its store.

    Args:
        name: without any `/`.
        folder: whether it is a folder itself.
        bytes: its size, where it is a file.

    Example:
        >>> Entry("part-0.parquet", False, 1_000).bytes
        1000
    """

    name: str
    folder: bool
    bytes: int = 0


# Lists a folder by its location, "" being the root; raises FileNotFoundError if it is none.
List = Callable[[str], Sequence[Entry]]


class ListedBackend(Backend):
    """A store that can only list one folder at a time, and whose bytes are checked by reading them back.

    A class of your own adds `_entries`, which lists a folder, and what else `Backend` wants: `exists`, `files`,
    `chunks`, `create`, `rename`, `delete`, `names`, `read_small` and `write_small`.

    Args:
        uri: of the store's root, such as `hdfs://namenode:8020/springline`.
        server: the beginning of `uri` that names the server, such as `hdfs://namenode:8020`.

    Raises:
        InvalidPathError: from every method, for a location outside of the root.

    Example:
        A whole store of this kind is in docs/howto.md::

            class RememberingBackend(ListedBackend):
                def __init__(self):
                    super().__init__("memory://here/root", "memory://here")
    """

    def __init__(self, uri: str, server: str) -> None:
        self._uri = uri.rstrip("/")
        self._root = self._uri.removeprefix(server)

    @abstractmethod
    def _entries(self, location: str) -> Sequence[Entry]:
        """What lies directly at `location`, "" being the root; raises FileNotFoundError if that is no folder."""

    def uri(self, location: str) -> str:
        # Hadoop takes a path as it stands; a percent-encoded one would name another file.
        return f"{self._uri}/{checked_below(self._uri, location)}"

    def manifest(self, location: str) -> Manifest:
        return Manifest(tuple(File(f.name, f.bytes, self._checksum(location, f.name)) for f in self.files(location)))

    def locations(self, marker: str) -> Iterator[str]:
        return locations_below(self._entries, marker)

    def copies(self) -> Iterator[str]:
        return copies_below(self._entries)

    def _path(self, *texts: str) -> str:
        return f"{self._root}/{checked_below(self._uri, *texts)}"

    def _folder(self, location: str) -> str:
        """The path of a folder that was found by walking, or of the root."""
        return f"{self._root}/{location}" if location else self._root or "/"

    def _checksum(self, location: str, name: str) -> str:
        hasher = xxhash.xxh3_128()
        for chunk in self.chunks(location, name):
            hasher.update(chunk)
        return hasher.hexdigest()


def checked_below(where: str, *texts: str) -> str:
    """The relative path that `texts` make together, once none of them leads out of its root.

    Args:
        where: the root, for the error.
        texts: parts of the path; each may hold `/`.

    Raises:
        InvalidPathError: a part is empty, absolute, or holds `..` or a NUL.

    Example:
        >>> checked_below("memory://here", "etl/clean/@1", "part-0.parquet")
        'etl/clean/@1/part-0.parquet'
    """
    for text in texts:
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts or "\0" in text:
            raise InvalidPathError(f"{text!r} in {where} is no place below it")
    return str(PurePosixPath(*texts))


def files_below(entries: List, top: str) -> Iterator[File]:
    """Every file below `top` that is part of a generation, in folders of any depth, their checksums left empty.

    Args:
        entries: lists a folder by its location, the root being `""`; raises `FileNotFoundError` if it is none.
        top: the location to begin with.

    Raises:
        FileNotFoundError: `top` is no folder.

    Example:
        >>> tree = {"a/@1": [Entry("x", True), Entry("_SUCCESS", False)], "a/@1/x": [Entry("part", False, 10)]}
        >>> list(files_below(lambda location: tree[location], "a/@1"))
        [File(name='x/part', bytes=10, checksum='')]
    """
    for entry in entries(top):
        yield from _files(entries, top, entry, "")


def copies_below(entries: List) -> Iterator[str]:
    """Every folder whose name begins with `@` or `.@`, and nothing in it."""
    for location, name in _folders(entries, ""):
        if name.startswith(("@", ".@")):
            yield location


def locations_below(entries: List, marker: str) -> Iterator[str]:
    """Every folder that holds a file called `marker`, hidden folders left out."""
    waiting = [""]
    while waiting:
        location = waiting.pop()
        inside = _unless_gone(entries, location)
        if location and any(entry.name == marker and not entry.folder for entry in inside):
            yield location
        waiting += [_join(location, e.name) for e in inside if e.folder and not e.name.startswith(".")]


def _folders(entries: List, top: str) -> Iterator[tuple[str, str]]:
    waiting = [(top, "")]
    while waiting:
        location, name = waiting.pop()
        if name:
            yield location, name
        if not name.startswith(("@", ".@")):
            inside = _unless_gone(entries, location)
            waiting += [(_join(location, e.name), e.name) for e in inside if e.folder]


def _files(entries: List, top: str, entry: Entry, above: str) -> Iterator[File]:
    name = _join(above, entry.name)
    if not visible(entry.name):
        return
    if not entry.folder:
        yield File(name, entry.bytes)
        return
    for inner in _unless_gone(entries, f"{top}/{name}"):
        yield from _files(entries, top, inner, name)


def _unless_gone(entries: List, location: str) -> Sequence[Entry]:
    """A folder that goes while the tree is walked is no error."""
    try:
        return entries(location)
    except FileNotFoundError:
        return ()


def _join(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
