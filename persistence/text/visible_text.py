"""Text that came from outside, an error of a store say, made fit to be shown: nothing hides or steers."""

from __future__ import annotations

import json


def visible(text: str) -> str:
    """A text that came from outside, with what would steer a terminal, or that nobody sees, spelled out: `\\x1b[2J`.

    Lines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def json_text(value: object, indent: int | None = None) -> str:
    """A value as JSON, names in their own script, what would steer a terminal as JSON spells it."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
