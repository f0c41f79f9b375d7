"""Walks a tree of folders that can only be listed one at a time: what remote stores have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from persistence.backends.spec import File, visible
from persistence.errors import InvalidPath


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies directly in a folder: a name, whether it is a folder itself, its size in bytes."""

    name: str
    folder: bool
    bytes: int = 0


# Lists a folder by its location, "" being the root; raises FileNotFoundError if it is none.
List = Callable[[str], Sequence[Entry]]


def checked_below(where: str, *texts: str) -> str:
    """The relative path that `texts` make together; raises `InvalidPath` if one of them leads out of `where`."""
    for text in texts:
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts:
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
