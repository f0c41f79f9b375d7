"""How deep SQL may be nested: what goes deeper is refused before a parser goes down into it.

Parser and evaluation go down some levels of Python's stack, up to twenty, with each level of the text. Where that ends
depends on who calls, so what is let in when a query is registered must not fail in the application that runs it later.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

LEVELS = 20  # of brackets, of CASE, and of NOT or signs in a row
CHAIN = 100  # operations below one another, as in a + b + …

_OPENING, _CLOSING = {"(", "[", "{", "CASE"}, {")", "]", "}", "END"}
_PREFIXES = {"NOT", "-", "+", "~"}
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}


def word_of(token: Token) -> str:
    """A word or a sign as SQL reads it; empty for what stands in quotes."""
    return "" if token.token_type in _QUOTED else str(token.text).upper()


def levels(words: Iterable[str]) -> int:
    """The most levels that are open at once."""
    most, level, around = 0, 0, [0]
    for word in words:
        if word in _OPENING:
            level += 1
            around.append(level)
        elif word in _CLOSING and len(around) > 1:
            around.pop()
            level = around[-1]
        elif word in _PREFIXES:
            level += 1
        else:
            level = around[-1]  # its operand ends what NOT and signs have opened
        most = max(most, level)
    return most


def chain(node: exp.Expr) -> int:
    """The most parts of an expression that lie below one another."""
    most, waiting = 0, [(node, 1)]
    while waiting:
        part, depth = waiting.pop()
        most = max(most, depth)
        waiting += [(below, depth + 1) for below in part.iter_expressions()]
    return most


def too_deep(tokens: Iterable[Token]) -> str:
    """Why a text cannot be read; empty if it can."""
    found = levels(word_of(token) for token in tokens)
    return f"it is nested {found} levels deep; {LEVELS} at most" if found > LEVELS else ""


def too_long(node: exp.Expr) -> str:
    """Why what was read cannot be worked out; empty if it can."""
    found = chain(node)
    return f"{found} operations follow from one another; {CHAIN} at most" if found > CHAIN else ""
