"""The command line as tests call it, in this process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

from springline import cli
from springline.cli import app


def invoke(*arguments: str, **more: Any) -> Result:
    """The result of `springline` with these arguments; `more` is what the runner of commands takes, such as `input`."""
    with patch("os.nice"):  # of the process that the tests share
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


def refused(*arguments: str, status: int = 2) -> str:
    """What `springline` prints as its error, and nothing else, when it ends with this exit status."""
    with (
        patch.object(sys, "argv", ["springline", *arguments]),
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as error,
        pytest.raises(SystemExit) as exit_info,
    ):
        cli.main()
    assert exit_info.value.code == status and not output.getvalue() and "Traceback" not in error.getvalue()
    return error.getvalue()
