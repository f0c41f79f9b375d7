"""The command line as tests call it, in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from springline.cli import app


def invoke(*arguments: str, **more: Any) -> Result:
    """The result of `springline` with these arguments; `more` is what the runner of commands takes, such as `input`."""
    return CliRunner().invoke(app, list(arguments), prog_name="springline", **more)


def printed(*arguments: str, code: int = 0) -> str:
    """What a command prints; it is to end with this exit status."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    return result.output


def failed(*arguments: str) -> BaseException:
    """What a command raises."""
    result = invoke(*arguments)
    assert result.exception is not None and not isinstance(result.exception, SystemExit), result.output
    return result.exception
