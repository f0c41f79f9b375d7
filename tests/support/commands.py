"""Command lines as tests call them."""

from __future__ import annotations

import typer
from typer.testing import CliRunner


def printed(app: typer.Typer, *arguments: str, code: int = 0) -> str:
    """What a command prints; it is to end with this exit status."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def failed(app: typer.Typer, *arguments: str) -> BaseException:
    """What a command raises."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is not None and not isinstance(done.exception, SystemExit), done.output
    return done.exception
