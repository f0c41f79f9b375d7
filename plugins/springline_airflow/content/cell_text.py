"""Values of rows as texts that JSON and a page can show, whatever the values are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta

MOST_LETTERS = 500
_MOST_BYTES = 16  # of a binary value


def cell_text(value: object) -> str | None:
    """Return a value as text, shortened if it is long; None stays None, a missing value.

    Numbers that JSON lacks have their names (`NaN`, `Infinity`), bytes are hexadecimal with their count, lists and
    structures are JSON.
    """
    if value is None:
        return None
    return shortened(value if isinstance(value, str) else _text_of(value))


def shortened(text: str) -> str:
    """Return a text of at most `MOST_LETTERS` letters, and how many more there are; every letter can be encoded."""
    text = text.encode("utf-8", "backslashreplace").decode()  # JSON allows halves of letters, UTF-8 does not
    rest = len(text) - MOST_LETTERS
    return text if rest <= 0 else f"{text[:MOST_LETTERS]}… ({rest:,} more letters)"


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, bytes):
        return _bytes_text(value)
    if isinstance(value, (list, tuple, Mapping)):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _number_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _bytes_text(value: bytes) -> str:
    more = "…" if len(value) > _MOST_BYTES else ""
    unit = "byte" if len(value) == 1 else "bytes"
    return f"{'0x' if value else ''}{value[:_MOST_BYTES].hex()}{more} ({len(value):,} {unit})".strip()


def _plain(value: object) -> object:
    """Return a nested value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return _bytes_text(value)
    if isinstance(value, (date, datetime, time, timedelta)):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
