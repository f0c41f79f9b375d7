"""What remote stores have in common: a tree of folders that can only be listed one at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import xxhash

from springline.persistence.backends.spec import Backend, File, Manifest, visible
from springline.persistence.errors import InvalidPath


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies directly in a folder: a name, whether it is a folder itself, its size in bytes."""

    name: str
    folder: bool
    bytes: int = 0


# Lists a folder by its location, "" being the root; raises FileNotFoundError if it is none.
List = Callable[[str], Sequence[Entry]]


class ListedBackend(Backend):
    """The folder `root` of a `server` (scheme://host:port), whose bytes can be checked only by reading them."""

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
    """The relative path that `texts` make together; raises `InvalidPath` if one of them leads out of `where`."""
    for text in texts:
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts or "\0" in text:
            raise InvalidPath(f"{text!r} in {where} is no place below it")
    return str(PurePosixPath(*texts))


def files_below(entries: List, top: str) -> Iterator[File]:
    """Every file below `top` that is part of a generation; raises FileNotFoundError if `top` is no folder."""
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
