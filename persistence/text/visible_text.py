"""Makes text from outside, such as an error of a store, safe to display: no invisible or control characters."""

from __future__ import annotations

import json


def escape_unprintable(text: str) -> str:
    """Escape invisible and control characters in a text from outside, as in `\\x1b[2J`.

    Line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def dump_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, without escaping letters of other scripts, but with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
