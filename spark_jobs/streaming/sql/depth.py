"""Limits on the nesting depth of SQL: deeper texts are refused before the parser recurses into them.

The parser and the evaluation use several levels of Python's stack, up to twenty, per level of nesting. The stack limit
depends on the caller, so a text that is accepted when a query is registered must not fail in the application that runs
it later.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

MAX_DEPTH = 20  # of brackets, of CASE, and of consecutive NOTs or signs
MAX_CHAIN = 100  # nested operations, as in a + b + …

_OPENING, _CLOSING = {"(", "[", "{", "CASE"}, {")", "]", "}", "END"}
_PREFIXES = {"NOT", "-", "+", "~"}
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}


def word_of(token: Token) -> str:
    """Return a keyword or sign as SQL reads it, in upper case; empty for quoted tokens."""
    return "" if token.token_type in _QUOTED else str(token.text).upper()


def nesting_depth(tokens: Iterable[str]) -> int:
    """Return the maximum number of levels that are open at the same time."""
    most, depth, enclosing_depths = 0, 0, [0]
    for token in tokens:
        if token in _OPENING:
            depth += 1
            enclosing_depths.append(depth)
        elif token in _CLOSING and len(enclosing_depths) > 1:
            enclosing_depths.pop()
            depth = enclosing_depths[-1]
        elif token in _PREFIXES:
            depth += 1
        else:
            depth = enclosing_depths[-1]  # an operand ends the levels that NOT and signs have opened
        most = max(most, depth)
    return most


def chain_length(node: exp.Expr) -> int:
    """Return the depth of an expression tree."""
    most, waiting = 0, [(node, 1)]
    while waiting:
        part, depth = waiting.pop()
        most = max(most, depth)
        waiting += [(below, depth + 1) for below in part.iter_expressions()]
    return most


def fault_of_depth(tokens: Iterable[Token]) -> str:
    """Return why a text is nested too deeply; empty if it is not."""
    depth = nesting_depth(word_of(token) for token in tokens)
    return f"it is nested {depth} levels deep; {MAX_DEPTH} at most" if depth > MAX_DEPTH else ""


def fault_of_chain(node: exp.Expr) -> str:
    """Return why a parsed expression is too long to evaluate; empty if it is not."""
    length = chain_length(node)
    return f"{length} operations follow from one another; {MAX_CHAIN} at most" if length > MAX_CHAIN else ""
