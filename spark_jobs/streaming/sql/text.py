"""SQL as text, before it is parsed: whether it can go where it must, and what it is without its comments."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*|[^'"/-]+|.""", re.DOTALL)
_WITHIN = re.compile(r".*?(/\*|\*/)", re.DOTALL)  # a comment, in which others may be


def uncommented(sql: str) -> str:
    """The text with blanks for comments, of which a parser lets only some stand between words that belong together."""
    found, at, depth = [], 0, 0
    while part := (_WITHIN if depth else _OUTSIDE).match(sql, at):
        text, at = part[0], part.end()
        inside = depth > 0 or text == "/*"
        depth += (1 if text.endswith("/*") else -1) if inside else 0
        found.append(re.sub(r"[^\n]", " ", text) if inside or text.startswith("--") else text)
    return sql if depth else "".join(found)  # one that has no end is the parser's to refuse


def unfit(text: str) -> str:
    """Why a text cannot go where it must: into files, messages and columns, all of them UTF-8; empty if it can."""
    if "\0" in text:
        return "it holds a zero character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} is half a character (a lone surrogate)"
    return ""
