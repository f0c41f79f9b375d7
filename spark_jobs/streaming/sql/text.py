"""A text of SQL: what is refused before it is parsed, what it says, and where in it an error is.

Whose text it is says what an error is called: a query of windows is a `InvalidQueryError`, a condition of a join a
`InvalidConditionError`. Nothing else differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.sql.depth import too_deep, too_long

_OUTSIDE = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*|[^'"/-]+|.""", re.DOTALL)
_WITHIN = re.compile(r".*?(/\*|\*/)", re.DOTALL)  # a comment, in which others may be
_LONGEST = 200  # characters of what a parser says
Refusal = Callable[[str, int | None, int | None], StreamError]  # an error: its message, line and column (from 1)


@dataclass(frozen=True)
class SqlText:
    """A text that may be parsed: `sql` has blanks for comments, so that places in it are those of what was written."""

    sql: str
    refusal: Refusal = field(repr=False, compare=False)
    tokens: tuple[Token, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(written: str, refusal: Refusal) -> SqlText:
        """A text as it was written; raises the refusal where it cannot be stored, read, or gone down into."""
        if odd := unfit(written):
            raise refusal(odd, None, None)
        sql = uncommented(written)
        try:
            tokens = tuple(sqlglot.tokenize(sql, read="duckdb"))
        except SqlglotError as error:
            raise refusal(f"cannot be read: {_first_line(error)}", None, None) from error
        if deep := too_deep(tokens):
            raise refusal(deep, None, None)
        return SqlText(sql, refusal, tokens)

    def statements(self, part: str | None = None) -> list[exp.Expr]:
        """What it says, or a part of it whose places are those in the whole; raises the refusal."""
        try:
            parsed = sqlglot.parse(self.sql if part is None else part, read="duckdb")
        except SqlglotError as error:
            first = (getattr(error, "errors", None) or [{}])[0]
            near = f", near {first['highlight']!r}" if first.get("highlight") else ""
            said = first.get("description", _first_line(error)).rstrip(".")
            said = "something is missing" if said.startswith("Required keyword") else said
            raise self.refusal(f"not SQL: {said}{near}", first.get("line"), first.get("col")) from error
        found = [each for each in parsed if each is not None]
        for node in found:
            if long := too_long(node):
                raise self.bad(long)
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While it is parsed and checked: raises the refusal for what only the parser has noticed."""
        try:
            yield
        except RecursionError as error:  # what `depth` has let pass, and the parser has not
            raise self.bad("it is nested too deeply") from error
        except SqlglotError as error:  # what was parsed, and cannot be written again
            raise self.bad(f"not SQL: {_first_line(error)}") from error

    def bad(self, message: str, at: int | None = None) -> StreamError:
        """An error at a character of the text, if it is told which."""
        return self.refusal(message, *((None, None) if at is None else self._position(at)))

    def bad_part(self, node: exp.Expr, message: str) -> StreamError:
        """An error at the place of `node`, or of the first part of it whose place is known."""
        return self.bad(
            message, min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=None)
        )

    def _position(self, start: int) -> tuple[int, int]:
        """Line and column, from 1, of a character."""
        for number, line in enumerate(self._lines, 1):
            if start <= len(line):
                return number, start + 1
            start -= len(line) + 1
        return len(self._lines), len(self._lines[-1]) + 1

    @cached_property
    def _lines(self) -> list[str]:
        return self.sql.split("\n")


def _first_line(error: SqlglotError) -> str:
    return str(error).splitlines()[0][:_LONGEST]


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
