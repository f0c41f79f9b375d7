"""Makes text from outside, such as an error of a store, safe to display: no invisible or control characters."""

from __future__ import annotations

import json
import math
from typing import Any


def escape_unprintable(text: str) -> str:
    """Escape invisible and control characters in a text from outside, as in `\\x1b[2J`.

    Line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def dump_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, without escaping letters of other scripts, but with control characters escaped."""
    text = json.dumps(name_numbers(value), ensure_ascii=False, indent=indent, default=str)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def name_numbers(value: Any) -> Any:
    """Return a value with the numbers that JSON lacks as texts, also inside lists and mappings.

    >>> name_numbers([1.5, float("-inf"), float("nan")])
    [1.5, '-Infinity', 'NaN']
    """
    if isinstance(value, float):
        infinity = "Infinity" if value > 0 else "-Infinity"
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else infinity
    if isinstance(value, dict):
        return {key: name_numbers(each) for key, each in value.items()}
    return [name_numbers(each) for each in value] if isinstance(value, list | tuple) else value
