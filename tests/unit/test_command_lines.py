"""What all commands have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from springline.cli import COMMANDS, iterate_commands
from springline.late_commands import CommandGroup, LazyCommand
from tests.support.commands import invoke

ALL = list(iterate_commands())


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_a_command_can_be_imported_and_says_what_it_does(path: tuple[str, ...], command: LazyCommand) -> None:
    """With -h and --help; the first line is the one in the list, which is read without an import."""
    result = invoke(*path, "-h")
    assert result.exit_code == 0 and result.output == invoke(*path, "--help").output
    assert " ".join(command.summary().split()) in " ".join(result.output.split())
    assert {"--install-completion", "--show-completion"}.isdisjoint(result.output.split())


def test_the_help_imports_no_command() -> None:
    """It is there at once: within 0.3 CPU seconds on a quiet machine, of which numpy alone would take half."""
    script = """
import json, resource, sys
from contextlib import suppress
from springline.cli import app
with suppress(SystemExit):
    app(["--help"])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
    completed_process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(completed_process.stdout.splitlines()[-1])
    assert not {"numpy", "sqlalchemy", "pyarrow", "numba", "pyspark", "airflow", "pydantic"} & set(modules)
    assert seconds < 1.0  # twice and more what it takes beside other tests


def test_a_misspelt_command_is_reported_with_what_was_meant() -> None:
    """At each noun."""
    assert "Did you mean 'stream'?" in invoke("straem").output
    result = invoke("stream", "savepiont")
    assert result.exit_code == 2 and "Did you mean 'savepoint'" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(shell: str) -> None:
    """By a script that the user sources; nothing is written into the shell's files."""
    result = invoke("completion", shell)
    assert result.exit_code == 0 and "_SPRINGLINE_COMPLETE" in result.output


def test_the_version_is_that_of_the_package() -> None:
    """One, in one place."""
    from importlib.metadata import version

    assert invoke("--version").output == f"springline {version('springline')}\n"


def test_the_home_and_the_profile_can_be_chosen_for_one_command(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by their variables."""
    monkeypatch.setenv("SPRINGLINE_HOME", "")
    monkeypatch.setenv("SPRINGLINE_PROFILE", "")
    assert f"SPRINGLINE_HOME={tmp_path}" in invoke("--home", str(tmp_path), "config", "list").output
    result = invoke("--profile", "nosuch", "config", "list")
    assert "SPRINGLINE_PROFILE='nosuch':" in str(result.exception)


def test_every_group_says_what_it_is_about() -> None:
    """And nothing happens without a verb."""
    for name, entry in COMMANDS.items():
        if isinstance(entry, CommandGroup):
            result = invoke(name)
            assert "Commands:" in result.output and entry.summary()[:40] in " ".join(result.output.split())
