"""The command line as tests call it, in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from springline.cli import app


def invoke(*words: str, **more: Any) -> Result:
    """What came of `springline` with these words; `more` is what the runner of commands takes, such as `input`."""
    return CliRunner().invoke(app, list(words), prog_name="springline", **more)


def printed(*words: str, code: int = 0) -> str:
    """What a command prints; it is to end with this exit status."""
    done = invoke(*words)
    assert done.exit_code == code, done.output
    return done.output


def failed(*words: str) -> BaseException:
    """What a command raises."""
    done = invoke(*words)
    assert done.exception is not None and not isinstance(done.exception, SystemExit), done.output
    return done.exception
