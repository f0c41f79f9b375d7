"""What the commands of back-pressure print and set, and what a job's table may say."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from springline.persistence.errors import ExtensionError
from springline.spark_jobs.streaming.backpressure.config import BackpressureConfig, ChannelKind
from springline.spark_jobs.streaming.errors import InvalidChannelError, InvalidJobError, UnknownJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from tests.support.commands import invoke, printed
from tests.support.streams.declarations import written

DECLARED = '[words]\nkind = "wordcount"\ntopic = "lines"\n'
THROTTLE = {"downstream": "count", "upstream": "split", "since": 0.0, "reason": "it can do 2 MB/s, and 3 MB wait",
            "throttle_level": 0, "rate": 1.5e6}  # fmt: skip
FREE: dict[str, Any] = {
    "state": "normal", "queue": 0, "not_admitted": 0, "seconds": None, "rate": None, "capacity": None, "arriving": 0.0,
    "applied": 0.0, "throttled_by": [], "throttles": [],
}  # fmt: skip
COUNT = {**FREE, "state": "overloaded", "queue": 3_000_000, "seconds": 1.5, "capacity": 2e6, "throttles": [THROTTLE]}
backpressure_output = partial(printed, "stream", "backpressure")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `words`."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(written(tmp_path, DECLARED)))
    monkeypatch.setenv("COLUMNS", "200")
    return JobFolder(tmp_path / "streams" / "words")


def test_a_job_that_never_ran_has_the_mode_that_it_is_declared_with(folder: JobFolder) -> None:
    """The default where nothing is said."""
    assert backpressure_output("show", "words") == "words: never started, back-pressure predictive\n"


def test_queues_and_who_throttles_whom_are_shown(folder: JobFolder) -> None:
    """As the job last reported."""
    backpressure_status = {"mode": "predictive", "signal_channel": "kafka", "stages": {"split": FREE, "count": COUNT}}
    with folder.application_lock():
        heartbeat = {"state": "running", "error": "", "heartbeat_at": time.time(), "started_at": 0.0, "pid": 7}
        folder.write_heartbeat({**heartbeat, "stages": {}, "backpressure": backpressure_status})
        output = backpressure_output("show", "words")
        status = json.loads(backpressure_output("show", "words", "--json"))
    for word in ("overloaded", "3 MB", "1.5 s", "2 MB/s", "count throttles split to 1.5 MB/s since", "3 MB wait"):
        assert word in output, word
    assert (status["state"], status["stages"]) == ("running", backpressure_status["stages"])


def test_a_mode_is_set_while_the_job_runs_or_not(folder: JobFolder) -> None:
    """And shown from then on; a baseline is marked as one."""
    for mode, shown in (("stepwise", "stepwise"), ("stepwise-literal", "stepwise-literal (a baseline)")):
        assert backpressure_output("set", "words", mode) == f"words: back-pressure {shown}\n"
    assert json.loads(backpressure_output("show", "words", "--json"))["mode"] == "stepwise-literal"
    assert isinstance(invoke("stream", "backpressure", "set", "other", "off").exception, UnknownJobError)


def test_a_mode_that_is_not_installed_is_refused_with_those_installed(folder: JobFolder) -> None:
    """And nothing is set."""
    error = invoke("stream", "backpressure", "set", "words", "sometimes").exception
    assert isinstance(error, ExtensionError) and error.exit_status == 2
    for text in ("'sometimes'", "off, predictive, stepwise; baselines, for comparison: stepwise-literal"):
        assert text in str(error)
    assert json.loads(backpressure_output("show", "words", "--json"))["mode"] == "predictive"


def test_a_channel_is_for_jobs_with_stages_apart(folder: JobFolder, tmp_path: Path) -> None:
    """Where none is, signals need none: to choose one is refused, and none is shown."""
    result = invoke("stream", "backpressure", "set", "words", "stepwise", "--signal-channel", "zookeeper")
    assert isinstance(result.exception, InvalidChannelError)
    assert json.loads(backpressure_output("show", "words", "--json"))["signal_channel"] is None
    written(tmp_path, DECLARED + "second_application = true\n")
    assert backpressure_output("set", "words", "stepwise", "--signal-channel", "zookeeper") == (
        "words: back-pressure stepwise, signals between its applications by zookeeper\n"
    )
    assert backpressure_output("set", "words", "off") == "words: back-pressure off\n"
    assert json.loads(backpressure_output("show", "words", "--json"))["signal_channel"] == "zookeeper"


def test_a_jobs_table_says_mode_and_channel(tmp_path: Path) -> None:
    """Another word is refused with those that are known."""
    keys = 'backpressure = "stepwise-literal"\nsecond_application = true\nsignal_channel = "zookeeper"\n'
    file = written(tmp_path, DECLARED + keys)
    assert read_job(file, "words").backpressure == BackpressureConfig("stepwise-literal", ChannelKind.ZOOKEEPER)
    file = written(tmp_path, DECLARED + 'backpressure = "sometimes"\n')
    with pytest.raises(InvalidJobError, match=r"mode of back-pressure 'sometimes': .*; installed: off, predictive, "):
        read_job(file, "words")


@pytest.mark.parametrize("setting", ["", "second_application = false\n"])
def test_a_channel_in_the_table_of_a_job_without_stages_apart_is_refused(tmp_path: Path, setting: str) -> None:
    """Since it would do nothing."""
    file = written(tmp_path, DECLARED + setting + 'signal_channel = "zookeeper"\n')
    expected = r"signal_channel is for the signals between two applications.*remove the key"
    with pytest.raises(InvalidJobError, match=expected):
        read_job(file, "words")
