"""Rows as commands print them: what came from a stream is shown as text, and steers nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.commands.status import _table
from springline.spark_jobs.streaming.commands.tables import print_answer, print_rows
from springline.spark_jobs.streaming.settings import StreamSettings

STEERING = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\r\x08\x00", "\u202e", "[/red]", "[bold]x[/bold]", "[link=x]y"]


@pytest.mark.parametrize("text", STEERING)
def test_a_value_is_shown_as_it_stands(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Markup is text, and what would steer a terminal is spelled out; in the names of columns too."""
    print_rows(["word"], [[text]])
    print_answer(pa.table({text: [text]}), as_json=False)
    output = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert output.count(text if text.isprintable() else ascii(text)[1:-1]) == 3


def test_numbers_that_json_lacks_are_texts_in_the_json_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """As in results, so that every JSON parser reads them."""
    print_answer(pa.table({"x": [float("inf"), float("-inf"), float("nan"), 0.5]}), as_json=True)
    values = [row["x"] for row in json.loads(capsys.readouterr().out, parse_constant=pytest.fail)]
    assert values == ["Infinity", "-Infinity", "NaN", 0.5]


def test_an_error_of_a_job_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though it holds what looks like markup that ends nothing."""
    from rich.console import Console

    settings = StreamSettings(home=tmp_path)
    folder = settings.folder("job")
    folder.path.mkdir(parents=True)
    times = {"heartbeat_at": time.time(), "started_at": 1.0}
    folder.write_heartbeat({"state": "failed", "error": "no [/red] \x1b[2J", "pid": 7, "stages": {}, **times})
    Console(width=400).print(_table([read_status("job", folder, time.time())], settings))
    assert r"no [/red] \x1b[2J" in capsys.readouterr().out
