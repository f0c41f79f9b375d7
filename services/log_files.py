"""The log files of servers: begun anew with each start, read from their ends."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

_TAIL = 30  # lines of a log that an error shows
_TAIL_BYTES = 64 << 10  # in which they are looked for
KEPT_BYTES = 16 << 20  # of the log of an earlier start
_ERROR = re.compile(r"^\S*(Error|Exception)\b|\b(ERROR|CRITICAL|FATAL|error:)", re.MULTILINE)
_MOST_CHARACTERS = 300


def fresh(log: Path) -> Path:
    """Make room for a new log; the end of the one before stays beside it, up to `KEPT_BYTES`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        earlier = log.replace(log.with_suffix(".log.1"))
        if earlier.stat().st_size > KEPT_BYTES:
            _cut(earlier)
    return log


def _cut(log: Path) -> None:
    """Leave only the end of a log that nobody writes to any more."""
    half = log.with_suffix(".half")
    with log.open("rb") as whole, half.open("wb") as end:
        whole.seek(-KEPT_BYTES, os.SEEK_END)
        shutil.copyfileobj(whole, end)
    half.replace(log)


def tail(log: Path) -> str:
    """The end of a log file, headed by its name; no more than that is read, however large the file is."""
    try:
        lines = _last_lines(log)[-_TAIL:]
    except FileNotFoundError:
        lines = ["(no such file)"]
    return "\n".join((f"--- end of {log}", *lines))


def last_error(log: Path) -> str:
    """The last line of a log that tells of an error, else its last one; empty where it holds none."""
    try:
        lines = [line.strip() for line in _last_lines(log) if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if _ERROR.search(line)]
    return one_line((errors or lines or [""])[-1])


def one_line(text: str) -> str:
    """The first line of a text, cut where it is long."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]} …"


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
