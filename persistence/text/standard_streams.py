"""The standard streams of a command, which may be closed, full, or of an encoding that lacks letters."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

_ESCAPE = "springline.escape"


class OutputError(OSError):
    """The standard output cannot be written, such as to a full disk."""

    exit_status = 1

    def __str__(self) -> str:
        return f"the output cannot be written: {self.strerror}"


class _Output(TextIOWrapper):
    """The standard output: after an error it discards what is written, also when the interpreter ends."""

    def write(self, text: str) -> int:
        if text == "":  # with which others probe, and hide the error
            return 0
        with self._discarding_after_errors():
            return super().write(text)

    def flush(self) -> None:
        with self._discarding_after_errors():
            super().flush()

    @contextmanager
    def _discarding_after_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            raise OutputError(error.errno, error.strerror) from error


def open_standard_streams() -> None:
    """Make each standard stream usable: what goes to a closed one is discarded, letters that it lacks are escaped.

    Otherwise the next file that is opened, such as the catalog, would get the number of a closed stream, and what other
    processes write to that stream.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8", closefd=False))
    codecs.register_error(_ESCAPE, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, TextIOWrapper):  # and not one of a test
        options = {
            name: getattr(sys.stdout, name) for name in ("encoding", "errors", "line_buffering", "write_through")
        }
        sys.stdout = sys.__stdout__ = _Output(sys.stdout.detach(), **options)  # type: ignore[misc]


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Spell letters as JSON does, so that JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
