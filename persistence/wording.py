"""How bytes, seconds and lists are said in plain words: `1.2 GB`, `3 min 20 s`, `a, b and 4 more`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


def say_bytes(size: float) -> str:
    """A size a person can read: `512 B`, `1.2 GB` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def say_seconds(seconds: float) -> str:
    """A duration a person can read: `21 ms`, `3.4 s`, `3 min 20 s`, `2.5 h`, `12 days`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 99.5:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 86400:.3g} days"


def say_list(things: Iterable[object], most: int = 3) -> str:
    """The first few by name and the number of the others: `a, b, c and 4 more`."""
    names = [str(thing) for thing in things]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def say_known(name: str, known: Collection[str], most: int = 5) -> str:
    """What there is instead of `name`: all while they are few, else those that are spelled nearly so, or the first.

    `a, b`, or `flights, flows, nearest of 40`, or `a, b, c and 37 more`.
    """
    if len(known) <= most:
        return ", ".join(known) or "none"
    if near := get_close_matches(name, known, n=3):
        return f"{', '.join(near)}, nearest of {len(known):,}"
    return say_list(known)


def counted(count: int, thing: str) -> str:
    """A number of things: `1 step`, `3 steps`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
