"""What is printed: text from outside steers no terminal and hides nothing, whichever command prints it."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from springline import cli
from springline.persistence.model.dataset import Strategy
from springline.persistence.monitoring.logs import JsonFormatter, TextFormatter
from springline.persistence.platform import Platform
from springline.persistence.text.terminal import Terminal, console, print_json
from springline.persistence.text.terminal import print as shown
from springline.persistence.text.visible_text import escape_unprintable
from springline.testing.lines import make_dataset as make
from tests.support.commands import invoke

ROOT = Path(__file__).resolve().parents[2]
STEERING = "\x1b[2J\x1b]0;owned\x07 \x9b31m \r\x08 \u202egnirts\u2066 \u200b \x7f"
SPELLED = r"\x1b[2J\x1b]0;owned\x07 \x9b31m \r\x08 \u202egnirts\u2066 \u200b \x7f"


def table() -> Table:
    """A table with a cell from outside."""
    named_table = Table("a")
    named_table.add_row(STEERING)
    return named_table


@pytest.mark.parametrize(
    "tell",
    [
        lambda: shown(STEERING),
        lambda: shown("x", STEERING, sep=": ", flush=True),
        lambda: shown(STEERING, file=sys.stderr),
        lambda: console().print(STEERING, markup=False),
        lambda: console().print(table()),
        lambda: Terminal(width=200).print(Text(STEERING)),
    ],
)
def test_what_would_steer_a_terminal_is_spelled_out(
    tell: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Text that is printed, and text in tables; lines and tabs stay."""
    tell()
    out, err = capsys.readouterr()
    without_bells = SPELLED.replace(r"\x07", "").replace(r"\r\x08", "")  # which Rich drops from a text of its own
    assert {SPELLED, without_bells} & {line.strip("│ ") for line in (out + err).replace("x: ", "").splitlines()}
    assert all(letter.isprintable() or letter == "\n" for letter in out + err)
    assert escape_unprintable("a\tb\nc") == "a\tb\nc" and escape_unprintable(escape_unprintable(STEERING)) == SPELLED


def test_colours_of_our_own_stay() -> None:
    """Only text is spelled out."""
    stream = io.StringIO()
    Terminal(file=stream, force_terminal=True, color_system="standard").print("[red]x[/red]")
    assert stream.getvalue() == "\x1b[31mx\x1b[0m\n"


def test_json_is_the_same_value_without_letters_that_steer(capsys: pytest.CaptureFixture[str]) -> None:
    """Other scripts stay as they are."""
    print_json({"größe 表": STEERING, "moved": "\U000e0041"})
    output = capsys.readouterr().out
    assert json.loads(output) == {"größe 表": STEERING, "moved": "\U000e0041"} and "größe 表" in output
    assert all(letter.isprintable() or letter == "\n" for letter in output)


@pytest.mark.parametrize("form", [TextFormatter(), JsonFormatter()])
def test_a_line_of_a_log_steers_no_terminal(form: logging.Formatter) -> None:
    """Text or JSON, the traceback too."""
    try:
        raise ValueError(STEERING)
    except ValueError:
        record = logging.LogRecord("springline", logging.INFO, "", 0, "told: %s", (STEERING,), sys.exc_info())
    text = form.format(record)
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_a_traceback_steers_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an unexpected error."""

    def broken(**_: object) -> None:
        raise RuntimeError(STEERING)

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit):
        cli.main()
    assert SPELLED in (message := capsys.readouterr().err)
    assert all(letter.isprintable() or letter == "\n" for letter in message)


def test_explain_spells_out_an_error_of_a_store(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the catalog keeps it, in its words and its history."""
    dataset = make(platform, "etl/a", lines=["x"], strategy=Strategy.ASYNC_STORE)
    platform.catalog.amend(dataset.ref, event="failed", reason=f"the store said: {STEERING}", error=STEERING)
    monkeypatch.setenv("SPRINGLINE_HOME", str(platform.settings.home))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", platform.settings.cache_uri)
    for arguments in (["explain", "etl/a"], ["explain", "etl/a", "--json"], ["list", "--json"]):
        result = invoke("dataset", *arguments)
        assert result.exit_code == 0, result.output
        assert all(letter.isprintable() or letter == "\n" for letter in result.output), arguments


def modules() -> list[Path]:
    """Those that may print."""
    folders = ("persistence", "spark_jobs", "services", "plugins")
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "terminal.py"]


def test_every_command_prints_by_what_spells_out() -> None:
    """None by Python's own `print` or `echo`, and none by a console of its own: one that is added is seen here."""
    wrong = []
    for path in modules():
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "springline.persistence.text.terminal"
            for alias in node.names
        }
        for node in ast.walk(tree):
            names = {"print", "echo"} if isinstance(node, ast.Name) else {"Console"}
            named = node.func if isinstance(node, ast.Call) else node
            own = isinstance(named, ast.Name) and named.id in names - imported
            echoes = isinstance(node, ast.Attribute) and node.attr in ("echo", "secho")
            if own or echoes:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")  # type: ignore[attr-defined]
    assert not wrong


# ---- where it is printed to


def run_cli(redirection: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with its output redirected by a shell."""
    command = [sys.executable, "-c", "from springline.cli import main; main()", *arguments]
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *command],
        capture_output=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def test_an_encoding_that_lacks_a_letter_gets_it_spelled() -> None:
    """As JSON does, so that JSON stays JSON."""
    shown = run_cli(
        "", "config", "get", "SPRINGLINE_HOME", "--json", PYTHONIOENCODING="ascii", SPRINGLINE_HOME="/é北😀"
    )
    assert json.loads(shown.stdout)["value"] == "/é北😀", shown.stderr
    refused = run_cli("", "dataset", "北", PYTHONIOENCODING="latin-1")
    assert (refused.returncode, b"No such command '\\u5317'" in refused.stderr) == (2, True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_cannot_be_written_ends_the_command_in_one_line(unbuffered: str) -> None:
    """Whichever library writes it; what reads only a part of it is no error."""
    for argument in ("--help", "--version"):
        full = run_cli(">/dev/full", argument, PYTHONUNBUFFERED=unbuffered)
        problem = b"springline: the output cannot be written: No space left on device\n"
        assert (full.returncode, full.stderr) == (1, problem)
    assert run_cli("| head -c 1", "--help", PYTHONUNBUFFERED=unbuffered).stderr == b""


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_takes_nothing(closed: str, tmp_path: Path) -> None:
    """And no file, such as the catalog, gets its number and what others print."""
    nothing = run_cli(closed, "dataset", "list", SPRINGLINE_HOME=str(tmp_path))
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, b"", b"")
