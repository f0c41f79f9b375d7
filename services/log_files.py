"""The log files of servers: rotated at each start, read from the end."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

_TAIL = 30  # lines of a log that an error shows
_TAIL_BYTES = 64 << 10  # how much of a log's end is read for them
RETAINED_BYTES = 16 << 20  # kept of the log of the previous start
_ERROR = re.compile(r"^\S*(Error|Exception)\b|\b(ERROR|CRITICAL|FATAL|error:)", re.MULTILINE)
_MAX_CHARACTERS = 300


def rotate_log(log: Path) -> Path:
    """Rotate a log; the end of the previous one is kept beside it, up to `RETAINED_BYTES`. Returns `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        earlier = log.replace(log.with_suffix(".log.1"))
        if earlier.stat().st_size > RETAINED_BYTES:
            _truncate(earlier)
    return log


def _truncate(log: Path) -> None:
    """Keep only the end of a log that no process writes to any more."""
    half = log.with_suffix(".half")
    with log.open("rb") as source, half.open("wb") as end:
        source.seek(-RETAINED_BYTES, os.SEEK_END)
        shutil.copyfileobj(source, end)
    half.replace(log)


def tail(log: Path) -> str:
    """Return the last lines of a log file, after a heading with its name; only the end of the file is read."""
    try:
        lines = _last_lines(log)[-_TAIL:]
    except FileNotFoundError:
        lines = ["(no such file)"]
    return "\n".join((f"--- end of {log}", *lines))


def last_error(log: Path) -> str:
    """Return the last line of a log that contains an error, else its last line; empty if the log is."""
    try:
        lines = [line.strip() for line in _last_lines(log) if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if _ERROR.search(line)]
    return one_line((errors or lines or [""])[-1])


def one_line(text: str) -> str:
    """Return the first line of a text, truncated to 300 characters."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]} …"


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
