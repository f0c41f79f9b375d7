"""What is printed: text that came from outside, an error of a store say, is shown and steers no terminal.

Commands print by this module alone; `tests/unit/test_printed_text.py` looks.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
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
