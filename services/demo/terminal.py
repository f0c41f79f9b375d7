"""Terminal output of the demo's commands: headings, errors without a traceback, and exit on Ctrl-C."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from pydantic_settings import SettingsError
from rich.console import Console

from springline.persistence.errors import PersistenceError
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.terminal import Terminal
from springline.services.demo.failure import format_error
from springline.services.errors import ServiceError
from springline.services.log_files import one_line, rotate_log
from springline.services.settings import ServiceSettings
from springline.spark_jobs.errors import JobError

_RETRY_HINT = "`make stop` stops everything that was started; the same command resumes from there."


def main(run: Callable[[Console], None]) -> None:
    """Run one of the commands; an error is printed with a hint where to look, and exits with status 1.

    The traceback of an unexpected error is written to a log in the home folder.
    """
    console = Terminal(width=None if sys.stdout.isatty() else 140)
    try:
        run(console)
    except (ServiceError, PersistenceError, JobError, SettingsError) as error:
        _fail(console, format_error(error))
    except KeyboardInterrupt:
        console.print("\nStopped watching. The servers are still running: `make stop` stops them.")
        sys.exit(130)
    except Exception as error:
        log = rotate_log(ServiceSettings().home / "log" / "demo" / "error.log")
        log.write_text(redact_secrets(traceback.format_exc()))
        _fail(
            console,
            f"The demo itself failed: {type(error).__name__}: {one_line(str(error))}\n    log: {log}\n{_RETRY_HINT}",
        )


def _fail(console: Console, text: str) -> None:
    console.print(f"\n{redact_secrets(text)}", style="red", markup=False, highlight=False)
    sys.exit(1)


def print_heading(console: Console, title: str) -> None:
    """Print a heading."""
    console.print(f"\n{title}", style="bold", highlight=False)
