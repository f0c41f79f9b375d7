"""SQL text: checks before parsing, the parser, and the positions of errors.

The owner of the text decides the type of its errors: `InvalidQueryError` for a query of windows,
`InvalidConditionError` for the condition of a join. There is no other difference.
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
from springline.spark_jobs.streaming.sql.depth import fault_of_chain, fault_of_depth

_OUTSIDE = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*|[^'"/-]+|.""", re.DOTALL)
_WITHIN = re.compile(r".*?(/\*|\*/)", re.DOTALL)  # a comment, which may contain nested comments
_MAX_MESSAGE = 200  # characters of a parser's message
Refusal = Callable[[str, int | None, int | None], StreamError]  # error of message, line and column (from 1)


@dataclass(frozen=True)
class SqlText:
    """A text that may be parsed; `sql` has spaces for comments, so that positions equal those in the original."""

    sql: str
    refusal: Refusal = field(repr=False, compare=False)
    tokens: tuple[Token, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(source: str, refusal: Refusal) -> SqlText:
        """Check a text as written; raises the refusal if it cannot be stored or parsed, or is nested too deeply."""
        if odd := fault_of_text(source):
            raise refusal(odd, None, None)
        sql = blank_comments(source)
        try:
            tokens = tuple(sqlglot.tokenize(sql, read="duckdb"))
        except SqlglotError as error:
            raise refusal(f"cannot be read: {_first_line(error)}", None, None) from error
        if deep := fault_of_depth(tokens):
            raise refusal(deep, None, None)
        return SqlText(sql, refusal, tokens)

    def statements(self, part: str | None = None) -> list[exp.Expr]:
        """Parse the text, or a part of it with the same positions; raises the refusal."""
        try:
            parsed = sqlglot.parse(self.sql if part is None else part, read="duckdb")
        except SqlglotError as error:
            first = (getattr(error, "errors", None) or [{}])[0]
            near = f", near {first['highlight']!r}" if first.get("highlight") else ""
            description = first.get("description", _first_line(error)).rstrip(".")
            description = "something is missing" if description.startswith("Required keyword") else description
            raise self.refusal(f"not SQL: {description}{near}", first.get("line"), first.get("col")) from error
        statements = [each for each in parsed if each is not None]
        for node in statements:
            if long := fault_of_chain(node):
                raise self.error_at(long)
        return statements

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Wrap parsing and checking: raises the refusal for errors that only the parser detects."""
        try:
            yield
        except RecursionError as error:  # nesting that `depth` accepted and the parser did not
            raise self.error_at("it is nested too deeply") from error
        except SqlglotError as error:  # parsed, but cannot be converted back to text
            raise self.error_at(f"not SQL: {_first_line(error)}") from error

    def error_at(self, message: str, position: int | None = None) -> StreamError:
        """Return an error at a character position of the text, if one is given."""
        return self.refusal(message, *((None, None) if position is None else self._line_and_column(position)))

    def error_at_node(self, node: exp.Expr, message: str) -> StreamError:
        """Return an error at the position of `node`, or of the first part of it whose position is known."""
        return self.error_at(
            message, min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=None)
        )

    def _line_and_column(self, start: int) -> tuple[int, int]:
        """Return the line and column, from 1, of a character position."""
        for number, line in enumerate(self._lines, 1):
            if start <= len(line):
                return number, start + 1
            start -= len(line) + 1
        return len(self._lines), len(self._lines[-1]) + 1

    @cached_property
    def _lines(self) -> list[str]:
        return self.sql.split("\n")


def _first_line(error: SqlglotError) -> str:
    return str(error).splitlines()[0][:_MAX_MESSAGE]


def blank_comments(sql: str) -> str:
    """Replace comments by spaces; the parser accepts comments between related words only in some places."""
    parts, position, depth = [], 0, 0
    while part := (_WITHIN if depth else _OUTSIDE).match(sql, position):
        text, position = part[0], part.end()
        inside = depth > 0 or text == "/*"
        depth += (1 if text.endswith("/*") else -1) if inside else 0
        parts.append(re.sub(r"[^\n]", " ", text) if inside or text.startswith("--") else text)
    return sql if depth else "".join(parts)  # the parser refuses an unterminated comment


def fault_of_text(text: str) -> str:
    """Return why a text cannot be stored as UTF-8 in files, messages and columns; empty if it can."""
    if "\0" in text:
        return "it holds a zero character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} is half a character (a lone surrogate)"
    return ""
