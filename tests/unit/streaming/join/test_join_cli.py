"""What the commands of joins print."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.errors import NeverBalancedError
from springline.spark_jobs.streaming.join.rebalance import requested_units
from tests.support.commands import invoke, printed
from tests.support.joins.join_world import JoinWorld
from tests.support.joins.pairs import PAIRS, widened

DECLARED = f"""{PAIRS}
[words]
kind = "wordcount"
topic = "lines"
"""
told = partial(printed, "stream")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `pairs`, which never ran."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", tmp_path / "streams.toml")):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "200")
    return JobFolder(tmp_path / "streams" / "pairs")


@pytest.fixture
def ran(folder: JobFolder, tmp_path: Path) -> JoinWorld:
    """The same, with a heavy key: from two units to three."""
    return widened(folder, tmp_path, 60, max_imbalance=0.0)


def refused(*arguments: str) -> BaseException | None:
    """Why a command does not do it."""
    done = invoke("stream", *arguments)
    assert done.exit_code
    return done.exception


def test_a_join_that_never_ran_explains_nothing(folder: JobFolder) -> None:
    """It says what to do."""
    error = refused("explain", "pairs")
    assert isinstance(error, NeverBalancedError) and "nothing is known of it yet: start it first" in str(error)


def test_loads_keys_and_reasons_are_explained(ran: JoinWorld) -> None:
    """In words, and as JSON."""
    words = told("explain", "pairs")
    for word in (
        "heavy-split-work, 3 units,",
        "messages a tuple",
        "imbalance",
        "heavy key",
        "now: ",
    ):
        assert word in words, word
    found = json.loads(told("explain", "pairs", "--json"))
    assert any("3 units instead of 2" in why for each in found["history"] for why in each["reasons"])
    assert found["units"] == 3 and sum(map(sum, found["loads"].values())) == 120


def test_other_units_are_wanted_by_a_command(folder: JobFolder) -> None:
    """Also of a job that does not run."""
    assert "pairs: 3 units are requested" in told("rescale", "pairs", "3")
    assert requested_units(folder, 2) == 3


def test_more_units_than_there_is_room_for_are_refused(folder: JobFolder) -> None:
    """And none at all; what was wanted stays."""
    error = refused("rescale", "pairs", "5")
    assert isinstance(error, InvalidJobError) and str(error) == "pairs: 5 units; there is room for 1 to 4"
    refused("rescale", "pairs", "0")
    assert requested_units(folder, 2) == 2


@pytest.mark.parametrize("command", [("explain",), ("rescale", "3")])
def test_a_job_that_joins_nothing_is_named(folder: JobFolder, command: tuple[str, ...]) -> None:
    """And one that is not declared."""
    name, *rest = command
    assert "words: it joins nothing" in str(refused(name, "words", *rest))
    assert "no job 'none'" in str(refused(name, "none", *rest))
