"""A table that is redrawn while it is watched."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.live import Live
from rich.table import Table

from springline.persistence.text.terminal import console

_REFRESH_SECONDS = 1.0


def show_live(table: Callable[[], Table], watch: bool) -> None:
    """Print a table, and with `watch` on a terminal redraw it every second until Ctrl-C."""
    out = console()
    if not watch or not out.is_terminal:
        out.print(table())
        return
    with Live(table(), console=out, screen=False) as live:
        try:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(table())
        except KeyboardInterrupt:
            pass
