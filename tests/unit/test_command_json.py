"""Whoever asks with --json gets JSON and nothing else on stdout; whoever waits at a terminal sees what is going on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from springline.cli import iterate_commands
from springline.persistence.text import terminal
from springline.persistence.text.terminal import print_result, progress
from tests.support.commands import invoke

# Commands without --json, each with the reason.
WITHOUT = {
    ("completion",): "prints a script for a shell",
    ("demo", "run"): "is a show for people, with tables that change",
    ("demo", "fault"): "is a show for people, with tables that change",
    ("logs",): "prints logs as they are",
    ("server", "exec"): "prints what the command that it runs prints",
    ("stream", "run"): "is the application itself; SPRINGLINE_LOG_FORMAT=json makes its log JSON",
}


def test_every_command_offers_json_but_for_those_with_a_reason() -> None:
    """A new one has to choose."""
    without = {path for path, command in iterate_commands() if "--json" not in _options(command.load(path[-1]))}
    assert without == set(WITHOUT)


def _options(command: object) -> set[str]:
    return {name for each in command.params for name in each.opts}  # type: ignore[attr-defined]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, with one folder of unknown files in the under-store."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", (tmp_path / "cache").as_uri())
    (tmp_path / "under" / "handed-over").mkdir(parents=True)
    (tmp_path / "under" / "handed-over" / "a.txt").write_text("to be\n")
    return tmp_path


@pytest.mark.usefixtures("home")
def test_a_list_is_an_array_and_one_thing_is_an_object() -> None:
    """Of commands that need no server."""
    adopted = json.loads(invoke("dataset", "adopt", "a/b", "handed-over", "--json").stdout)
    assert adopted == {"dataset": "a/b@1", "bytes": 6, "location": "handed-over"}
    for command_line, kind in {
        "dataset list": list, "dataset show a/b": dict, "dataset explain a/b": dict, "dataset recover": dict,
        "dataset evict a/b": dict, "dataset pin a/b": dict, "dataset retire": dict, "queue list": list,
        "queue persist": dict, "table list": list, "risk": dict, "operation prove": list, "alert list": list,
        "config list": list, "config get policy": dict, "config check": list, "catalog check": dict, "ps": list,
        "stream list": list, "stream tracked": list, "stream queries flights": list, "down": list,
    }.items():  # fmt: skip
        result = invoke(*command_line.split(), "--json")
        assert isinstance(json.loads(result.stdout), kind), (command_line, result.output)


class Teletype(io.StringIO):
    """A terminal, as a program sees one."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_progress_is_shown_at_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, with control characters in a name spelled out; not into a pipe, and not with --json."""
    for screen, quiet, shown in ((Teletype(), False, True), (Teletype(), True, False), (io.StringIO(), False, False)):
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        with progress("looking", quiet=quiet) as say:
            say("bringing a\x1b[2J back")
        assert ("bringing a\\x1b[2J back" in screen.getvalue()) is shown, screen.getvalue()


def test_what_is_printed_beside_progress_stays_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe gets the lines of a command and nothing of what a terminal shows meanwhile."""
    monkeypatch.setattr(sys, "stderr", Teletype())
    with progress("looking"):
        terminal.print("a line")
        print_result(True, {"a": 1}, "a is 1")
    assert capsys.readouterr().out == 'a line\n{\n  "a": 1\n}\n'
