"""How the demo's commands speak: headings, errors without a traceback, and an end when a person has seen enough."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console

from services.errors import ServiceError


def main(run: Callable[[Console], None]) -> None:
    """Run one of the commands; an error is told with where to look."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    try:
        run(console)
    except ServiceError as error:
        console.print(f"\n{error}", style="red", markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("\nStopped watching. The servers still run: `make stop` ends them.")
        sys.exit(130)


def say(console: Console, title: str) -> None:
    """A heading."""
    console.print(f"\n{title}", style="bold", highlight=False)
