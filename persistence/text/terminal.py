"""Output of commands: text from outside, such as an error of a store, is displayed but cannot control the terminal.

Commands print only with this module; `tests/unit/test_printed_text.py` checks that.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from springline.persistence.text.visible_text import dump_json, escape_unprintable


def print(*values: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Like Python's `print`, with control characters escaped."""
    builtins.print(escape_unprintable(sep.join(map(str, values))), end=end, file=file, flush=flush)


class Terminal(Console):
    """Like Rich's console: its own colours work, and control characters in text are escaped."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape a text before its width is measured."""
        return super().render_str(escape_unprintable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print, escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_unprintable(segment.text), segment.style)


def console() -> Terminal:
    """Return a console as wide as the terminal; for a file or a pipe, wide enough for a table."""
    return Terminal(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print a value as JSON, without escaping letters of other scripts."""
    builtins.print(dump_json(value, indent))


def print_result(as_json: bool, result: object, sentence: str) -> None:
    """Print the result of an action: the value as JSON, or the equivalent sentence for people."""
    if as_json:
        print_json(result)
    else:
        print(sentence)


def discard_text(text: str) -> None:
    """Ignore a line that is not to be displayed, such as the progress of a command with --json."""


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on stderr what a command is doing and for how long, while it runs; the line is removed afterwards.

    Yields a function that changes the text. Nothing is displayed if stderr is not a terminal, or if the command is
    `quiet` (with --json).

    Example:
        with progress("looking for what was lost", quiet=as_json) as say:
            say("bringing 3 datasets back")
    """
    if quiet or not sys.stderr.isatty():
        yield discard_text
        return
    from rich.progress import (
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )  # takes longer than a short command

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # Other output appears above the line; output to a file or a pipe is not changed.
    with Progress(
        *columns, console=Terminal(stderr=True, highlight=False), transient=True, refresh_per_second=4,
        redirect_stdout=sys.stdout.isatty(),
    ) as display:  # fmt: skip
        task = display.add_task(escape_unprintable(text), total=None)  # escaped before its width is measured
        yield lambda text: display.update(task, description=escape_unprintable(text))
