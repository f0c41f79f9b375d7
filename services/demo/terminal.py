"""How the demo's commands speak: headings, errors without a traceback, and an end when a person has seen enough."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from pydantic_settings import SettingsError
from rich.console import Console

from springline.persistence.errors import PersistenceError
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import Terminal
from springline.services.demo.failure import told_error
from springline.services.errors import ServiceError
from springline.services.log_files import fresh, one_line
from springline.services.settings import ServiceSettings
from springline.spark_jobs.errors import JobError

_AGAIN = "`make stop` ends all that was started; the same command again goes on from there."


def main(run: Callable[[Console], None]) -> None:
    """Run one of the commands; an error is told with where to look, and exit status 1.

    The traceback of one that nobody has foreseen is in a log of the home.
    """
    console = Terminal(width=None if sys.stdout.isatty() else 140)
    try:
        run(console)
    except (ServiceError, PersistenceError, JobError, SettingsError) as error:
        _fail(console, told_error(error))
    except KeyboardInterrupt:
        console.print("\nStopped watching. The servers still run: `make stop` ends them.")
        sys.exit(130)
    except Exception as error:
        log = fresh(ServiceSettings().home / "log" / "demo" / "error.log")
        log.write_text(redacted(traceback.format_exc()))
        _fail(
            console, f"The demo itself failed: {type(error).__name__}: {one_line(str(error))}\n    log: {log}\n{_AGAIN}"
        )


def _fail(console: Console, text: str) -> None:
    console.print(f"\n{redacted(text)}", style="red", markup=False, highlight=False)
    sys.exit(1)


def say(console: Console, title: str) -> None:
    """A heading."""
    console.print(f"\n{title}", style="bold", highlight=False)
