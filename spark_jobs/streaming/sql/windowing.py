"""The WINDOWING clause: determines which rows belong to one result.

    WINDOWING 60 s                      tumbling: disjoint windows of 60 s whose union is the stream (the paper's form)
    WINDOWING TUMBLE(60 s)              the same
    WINDOWING HOP(60 s, 10 s)           sliding by time: the last 60 s, every 10 s
    WINDOWING LANDMARK('2013-01-01', 60 s)   from a fixed time (UTC) up to now; every 60 s the groups that changed
    WINDOWING ROWS(1000, 100)           sliding by count: the last 1,000 rows, every 100 rows (ROWS(1000): every 1,000)

An optional `LATE 5 s` sets how long a slice stays open after its end. A duration is a number and a unit: us, ms, s,
min, h, d (or a longer word: seconds). Time windows begin at multiples of the slide since 1970, landmark windows at
multiples since the landmark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import gcd

from sqlglot.tokens import Token  # type: ignore[attr-defined]

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.sources.schema import MICROS
from springline.spark_jobs.streaming.sql.depth import word_of
from springline.spark_jobs.streaming.sql.text import SqlText

DURATION_UNITS = {
    "us": 1, "microsecond": 1, "ms": 1_000, "millisecond": 1_000, "s": MICROS, "sec": MICROS, "second": MICROS,
    "min": 60 * MICROS, "minute": 60 * MICROS, "h": 3600 * MICROS, "hour": 3600 * MICROS, "d": 86400 * MICROS,
    "day": 86400 * MICROS,
}  # fmt: skip
MAX_OVERLAP = 3_600  # windows that a row is in: each of them is a result
_MAX_DURATION = 100 * 366 * 86400 * MICROS
_DIGITS = 15  # of a number of rows
WINDOW_FORMS = ("60 s", "TUMBLE(size)", "HOP(size, slide)", "LANDMARK('since', every)", "ROWS(size, slide)")
_EXPECTED = f"write WINDOWING {', '.join(WINDOW_FORMS[:-1])} or {WINDOW_FORMS[-1]}"


@dataclass(frozen=True, slots=True)
class Hop:
    """Windows of `size` every `slide`, in microseconds; tumbling if the two are equal."""

    size: int
    slide: int

    @property
    def width(self) -> int:
        """The slice width: the greatest duration that divides both size and slide."""
        return gcd(self.size, self.slide)

    @property
    def phase(self) -> int:
        """The offset of slices, modulo their width."""
        return 0

    @property
    def shift(self) -> int:
        """The offset of windows, modulo their slide."""
        return 0


@dataclass(frozen=True, slots=True)
class Landmark:
    """A window from `since` (microseconds since 1970) up to now, emitted every `width`."""

    since: int
    width: int

    @property
    def phase(self) -> int:
        """The offset of slices, modulo their width."""
        return self.since % self.width


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The last `size` rows, every `slide` rows.

    Rows are ordered by time, rows of the same time by unit and by position in the unit's log. They are counted after
    WHERE, over all groups, from the registration of the query on.
    """

    size: int
    slide: int

    @property
    def pane(self) -> int:
        """The greatest number of rows that divides both size and slide."""
        return gcd(self.size, self.slide)

    @property
    def shift(self) -> int:
        """The offset of windows, modulo their slide: windows end at multiples of it."""
        return -self.size % self.slide


Window = Hop | Landmark | CountWindow


@dataclass(frozen=True, slots=True)
class WindowingClause:
    """The parsed clause, and the query text with the clause blanked; `lateness` is None if it has no LATE."""

    sql: str
    window: Window | None
    lateness: int | None


def split_windowing(text: SqlText) -> WindowingClause:
    """Split the clause from a query; positions in the remaining text stay the same. Raises the refusal of the text."""
    depth = 0
    for index, token in enumerate(text.tokens):
        depth += {"(": 1, ")": -1}.get(word_of(token), 0)
        if depth == 0 and word_of(token) == "WINDOWING":
            reader = _ClauseReader(text, text.tokens[index + 1 :], token)
            window, lateness = reader.window(), reader.lateness()
            reader.end()
            return WindowingClause(text.sql[: token.start] + " " * (len(text.sql) - token.start), window, lateness)
    return WindowingClause(text.sql, None, None)


def instant(text: str) -> int:
    """Return an ISO date and time as microseconds since 1970, UTC unless it has an offset; raises ValueError."""
    moment = datetime.fromisoformat(text)
    try:
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is beyond the years 1 to 9999 in UTC") from error
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * MICROS + since.microseconds


class _ClauseReader:
    """Reads the clause token by token; raises the text's refusal at the first token that does not fit."""

    def __init__(self, text: SqlText, tokens: Sequence[Token], before: Token) -> None:
        self.text = text
        self.tokens = [token for token in tokens if token.text != ";"]
        self.last = before

    def window(self) -> Window:
        kind = self._peek().upper()
        if kind not in ("TUMBLE", "HOP", "LANDMARK", "ROWS"):
            size = self.duration()
            return Hop(size, size)
        self._take()
        self._expect("(")
        window: Window
        if kind == "TUMBLE":
            size = self.duration()
            window = Hop(size, size)
        elif kind == "HOP":
            size = self.duration()
            self._expect(",")
            window = Hop(size, self.duration())
            if window.slide > size:
                raise self._error("windows with slide > size would skip rows")
            self._check_overlap(window)
        elif kind == "LANDMARK":
            since = self._instant()
            self._expect(",")
            window = Landmark(since, self.duration())
        else:
            size = self._count()
            window = CountWindow(size, self._count() if self._optional(",") else size)
            self._check_overlap(window)
        self._expect(")")
        return window

    def _check_overlap(self, window: Hop | CountWindow) -> None:
        if (windows := window.size // window.slide) > MAX_OVERLAP:
            raise self._error(f"each row would be in {windows:,} windows, at most {MAX_OVERLAP:,}: make slide larger")

    def lateness(self) -> int | None:
        return self.duration(zero=True) if self._optional("LATE") else None

    def end(self) -> None:
        if self.tokens:
            self._take()
            raise self._error(f"{self.last.text!r} after the WINDOWING clause, which comes last")

    def duration(self, *, zero: bool = False) -> int:
        """Read a duration: `60 s`, `60s`, `'60 s'`, `INTERVAL 60 SECONDS`."""
        self._optional("INTERVAL")
        text = self._take()
        if re.fullmatch(r"[\d.]+", text) and self.tokens and self._peek().isalpha():
            text += self._take()
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]+)", text.strip())
        unit = match[2].lower() if match else ""
        unit = unit if unit in DURATION_UNITS else unit.removesuffix("s")
        if match is None or unit not in DURATION_UNITS:
            raise self._error(f"{text!r} is not a duration: write a number and one of us, ms, s, min, h, d")
        length = float(match[1]) * DURATION_UNITS[unit]
        if not length <= _MAX_DURATION:
            raise self._error(f"a duration of {text[:40]!r} is too long; 100 years at most")
        micros = round(length)
        if micros <= 0 and not zero:
            raise self._error("a duration must be positive")
        return micros

    def _instant(self) -> int:
        if self._peek().upper() == "TIMESTAMP":
            self._take()
        text = self._take()
        try:
            return instant(text)
        except ValueError as error:
            raise self._error(f"{text!r} is not a date and time, such as '2013-01-31 12:00:00'") from error

    def _count(self) -> int:
        text = self._take()
        if not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
            raise self._error(f"{text[:40]!r} is not a number of rows of {_DIGITS} digits at most")
        return int(text)

    def _peek(self) -> str:
        return self.tokens[0].text if self.tokens else ""

    def _take(self) -> str:
        if not self.tokens:
            raise self._error(f"the WINDOWING clause ends too soon; {_EXPECTED}")
        self.last = self.tokens.pop(0)
        return self.last.text

    def _optional(self, word: str) -> bool:
        if self._peek().upper() != word:
            return False
        self._take()
        return True

    def _expect(self, word: str) -> None:
        if not self._optional(word):
            self._take()
            raise self._error(f"expected {word!r} before {self.last.text!r}; {_EXPECTED}")

    def _error(self, message: str) -> StreamError:
        return self.text.error_at(message, self.last.start)
