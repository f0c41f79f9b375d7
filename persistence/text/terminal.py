"""What is printed: text that came from outside, an error of a store say, is shown and steers no terminal.

Commands print by this module alone; `tests/unit/test_printed_text.py` looks.
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

from springline.persistence.text.visible_text import json_text, visible


def print(*values: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """As Python's own, with what would steer a terminal spelled out."""
    builtins.print(visible(sep.join(map(str, values))), end=end, file=file, flush=flush)


class Terminal(Console):
    """As Rich's console: colours are its own, and in text what would steer a terminal is spelled out."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text, spelled out before it is known how wide it is."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces that are printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console() -> Terminal:
    """A console as wide as the terminal; into a file or a pipe, wide enough for a table."""
    return Terminal(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print a value as JSON, names in their own script."""
    builtins.print(json_text(value, indent))


def print_result(as_json: bool, result: object, sentence: str) -> None:
    """Print what an action came to: the value as JSON, or for a person the sentence that says the same."""
    if as_json:
        print_json(result)
    else:
        print(sentence)


def print_nothing(text: str) -> None:
    """Take a line that is not to be shown, such as what goes on in a command with --json."""


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on stderr what a command is at and for how long, while it is; the line is gone afterwards.

    Yields what changes the text. Nothing is shown where stderr is no terminal, or where the command is to be `quiet`
    (with --json).

    Example:
        with progress("looking for what was lost", quiet=as_json) as say:
            say("bringing 3 datasets back")
    """
    if quiet or not sys.stderr.isatty():
        yield print_nothing
        return
    from rich.progress import (
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )  # takes longer than a short command

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # What is printed meanwhile appears above the line; what goes into a file or a pipe goes there untouched.
    with Progress(
        *columns, console=Terminal(stderr=True, highlight=False), transient=True, refresh_per_second=4,
        redirect_stdout=sys.stdout.isatty(),
    ) as shown:  # fmt: skip
        task = shown.add_task(visible(text), total=None)  # spelled out before its width is measured
        yield lambda text: shown.update(task, description=visible(text))
