"""Formats and parses bytes, seconds and lists in plain words: `1.2 GB`, `3 min 20 s`, `a, b and 4 more`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from pydantic import ByteSize, TypeAdapter, ValidationError

_SIZE = TypeAdapter(ByteSize)


def format_bytes(size: float) -> str:
    """Format a size for people, in powers of 1000.

    Args:
        size: bytes.

    Example:
        >>> format_bytes(512), format_bytes(1_200_000_000)
        ('512 B', '1.2 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def parse_bytes(text: object) -> object:
    """Parse a size such as `8GB`, `7.5 GiB`, `512M` or `100` to bytes; other types are returned unchanged.

    Raises `ValueError`. The units are powers of 1000, those with an i powers of 1024.

    >>> parse_bytes("8GB"), parse_bytes("4GiB"), parse_bytes("512")
    (8000000000, 4294967296, 512)
    """
    if not isinstance(text, str):
        return text
    stripped = text.strip()
    try:
        return int(_SIZE.validate_python(re.sub(r"(?<=[\d\s])([kKMGTP])$", r"\1B", stripped)))
    except (ValidationError, OverflowError):
        raise ValueError(
            "not a size: write a number of bytes, or a number with a unit such as 512MB, 8GB or 4GiB"
        ) from None


def parse_json_object(text: object) -> object:
    """Parse a JSON object; other types are returned unchanged. Raises `ValueError`, which does not contain the text."""
    if not isinstance(text, str):
        return text
    try:
        content = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ValueError(f'is not valid JSON ({error}): write an object such as {{"name": "value"}}') from None
    if not isinstance(content, dict):
        raise ValueError('is not a JSON object: write one such as {"name": "value"}')
    return content


def format_seconds(seconds: float) -> str:
    """Format a duration for people: `21 ms`, `3.4 s`, `3 min 20 s`, `2.5 h`, `12 days`."""
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


def format_list(things: Iterable[object], limit: int = 3) -> str:
    """Return the first few by name and the number of the others: `a, b, c and 4 more`."""
    names = [str(thing) for thing in things]
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def format_alternatives(name: str, candidates: Collection[str], limit: int = 5) -> str:
    """List alternatives to `name`: all if they are few, else those with similar spelling, or the first ones.

    `a, b`, or `flights, flows, nearest of 40`, or `a, b, c and 37 more`.
    """
    if len(candidates) <= limit:
        return ", ".join(candidates) or "none"
    if near := get_close_matches(name, candidates, n=3):
        return f"{', '.join(near)}, nearest of {len(candidates):,}"
    return format_list(candidates)


def format_suggestion(name: str, candidates: Collection[str]) -> str:
    """Return the probably intended name as the end of a sentence; empty if no candidate is similar."""
    near = get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def suggest(name: str, candidates: Collection[str]) -> str:
    """Return the candidate that `name` was probably meant to be; empty if none is similar."""
    return next(iter(get_close_matches(name, sorted(candidates), n=1, cutoff=0.75)), "")


def format_count(count: int, noun: str) -> str:
    """Return a number of things: `1 step`, `3 steps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_ordinal(number: int) -> str:
    """Return a position in a list: `1st`, `2nd`, `11th`, `1,003rd`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def format_requests(counts: Mapping[str, int]) -> str:
    """Format the numbers of requests by kind, the most frequent first; empty if there are none.

    >>> format_requests({"put": 3, "list": 2, "retry": 1})
    '5 requests (3 put, 2 list; 1 of them repeated)'
    """
    kinds = sorted((-count, kind) for kind, count in counts.items() if kind != "retry" and count)
    if not kinds:
        return ""
    repeats = f"; {counts['retry']} of them repeated" if counts.get("retry") else ""
    listed = ", ".join(f"{-count} {kind}" for count, kind in kinds)
    return f"{format_count(-sum(count for count, _ in kinds), 'request')} ({listed}{repeats})"
