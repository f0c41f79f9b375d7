"""How bytes, seconds and lists are said in plain words, and read: `1.2 GB`, `3 min 20 s`, `a, b and 4 more`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pydantic import ByteSize, TypeAdapter, ValidationError

_SIZE = TypeAdapter(ByteSize)


def say_bytes(size: float) -> str:
    """A size a person can read, in powers of 1000.

    Args:
        size: bytes.

    Example:
        >>> say_bytes(512), say_bytes(1_200_000_000)
        ('512 B', '1.2 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def parse_bytes(text: object) -> object:
    """The bytes of a size that a person wrote: `8GB`, `7.5 GiB`, `512M`, `100`; what is no text stays as it is.

    Raises `ValueError`. The units are powers of 1000, those with an i powers of 1024.

    >>> parse_bytes("8GB"), parse_bytes("4GiB"), parse_bytes("512")
    (8000000000, 4294967296, 512)
    """
    if not isinstance(text, str):
        return text
    written = text.strip()
    try:
        return int(_SIZE.validate_python(re.sub(r"(?<=[\d\s])([kKMGTP])$", r"\1B", written)))
    except (ValidationError, OverflowError):
        raise ValueError("not a size: write bytes, or a number with a unit such as 512MB, 8GB or 4GiB") from None


def parse_json_object(text: object) -> object:
    """A JSON object that a person wrote; what is no text stays as it is. Raises `ValueError`, without the text."""
    if not isinstance(text, str):
        return text
    try:
        content = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ValueError(f'is no JSON ({error}): write an object such as {{"name": "value"}}') from None
    if not isinstance(content, dict):
        raise ValueError('is no JSON object: write one such as {"name": "value"}')
    return content


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


def say_near(name: str, known: Collection[str]) -> str:
    """The known name that `name` was probably meant to be; empty if none is spelled nearly so."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.75)), "")


def counted(count: int, thing: str) -> str:
    """A number of things: `1 step`, `3 steps`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
