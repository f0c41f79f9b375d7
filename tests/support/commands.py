"""Command lines as tests call them."""

from __future__ import annotations

import typer
from typer.testing import CliRunner


def printed(app: typer.Typer, *arguments: str, code: int = 0) -> str:
    """What a command prints; it is to end with this exit status."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output
