"""What the commands of joins print."""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.commands import join as commands
from springline.spark_jobs.streaming.commands.savepoints import rewind, savepoint
from springline.spark_jobs.streaming.errors import InvalidJobError, UnknownSavepointError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.errors import NeverBalancedError
from springline.spark_jobs.streaming.join.rebalance import requested_units
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from tests.support.commands import invoke, printed
from tests.support.joins.join_simulation import JoinSimulation
from tests.support.joins.pairs import EXPLAINED, PAIRS, widened

DECLARED = f"""{PAIRS}
[words]
kind = "wordcount"
topic = "lines"
"""
stream_output = partial(printed, "stream")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `pairs`, which never ran."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", tmp_path / "streams.toml")):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "200")
    return JobFolder(tmp_path / "streams" / "pairs")


@pytest.fixture
def finished_join(folder: JobFolder, tmp_path: Path) -> JoinSimulation:
    """The same, with a heavy key: from two units to three."""
    return widened(folder, tmp_path, 60, max_imbalance=0.0)


def error_of(*arguments: str) -> BaseException | None:
    """Why a command does not do it."""
    result = invoke("stream", *arguments)
    assert result.exit_code
    return result.exception


def test_a_join_that_never_ran_explains_nothing(folder: JobFolder) -> None:
    """It says what to do."""
    error = error_of("explain", "pairs")
    assert isinstance(error, NeverBalancedError) and "no loads have been observed yet; start the job, and" in str(error)


def test_an_explanation_of_a_running_join_is_awaited(folder: JobFolder) -> None:
    """Right after its start, until its first loads have been observed."""
    with folder.application_lock():
        first = threading.Timer(0.3, lambda: write_json(folder.path / "explain.json", EXPLAINED))
        first.start()
        assert json.loads(stream_output("explain", "pairs", "--json")) == EXPLAINED
        first.join()


def test_an_explanation_is_not_awaited_for_ever(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that runs and observes nothing explains nothing."""
    monkeypatch.setattr(commands, "_FIRST_OBSERVATION_SECONDS", 0.2)
    with folder.application_lock():
        assert isinstance(error_of("explain", "pairs"), NeverBalancedError)


def test_loads_keys_and_reasons_are_explained(finished_join: JoinSimulation) -> None:
    """In words, and as JSON."""
    output = stream_output("explain", "pairs")
    for word in ("heavy-split-work, 3 units,", "messages per tuple", "imbalance", "heavy key", "now: "):
        assert word in output, word
    explanation = json.loads(stream_output("explain", "pairs", "--json"))
    assert any("3 units instead of 2" in reason for each in explanation["history"] for reason in each["reasons"])
    assert explanation["units"] == 3 and sum(map(sum, explanation["loads"].values())) == 120


def test_other_units_are_wanted_by_a_command(folder: JobFolder) -> None:
    """Also of a job that does not run; more than there is room for are refused, and none, and what was wanted stays."""
    assert "pairs: 3 units are requested" in stream_output("rescale", "pairs", "3")
    error = error_of("rescale", "pairs", "5")
    assert isinstance(error, InvalidJobError) and str(error) == "pairs: 5 units; expected 1 to 4 (max_units)"
    error_of("rescale", "pairs", "0")
    assert requested_units(folder, 2) == 3


@pytest.mark.parametrize("command", [("explain",), ("rescale", "3")])
def test_a_job_that_joins_nothing_is_named(folder: JobFolder, command: tuple[str, ...]) -> None:
    """And one that is not declared."""
    name, *arguments = command
    assert "words: it is not a join" in str(error_of(name, "words", *arguments))
    assert "no job 'none'" in str(error_of(name, "none", *arguments))


def test_a_join_has_no_savepoints(folder: JobFolder) -> None:
    """Neither is one made, nor gone back to; the words say what can be done."""
    for command in (savepoint, rewind):
        with pytest.raises(UnknownSavepointError, match="pairs: a join can only be rewound to its beginning"):
            command("pairs", "monday")
