"""What the commands of tracking print."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS
from tests.support.commands import invoke, printed

TRACKING = {
    "in_flight": 1234, "completed": 56789, "retried": 12, "failed": 3, "bytes": 2_000_000, "waits": False,
    "pause_reason": "",
    "low_watermarks": {"0": 700, "1": 800}, "seconds": {"p50": 0.091, "p90": 0.1, "p99": 1.5},
    "ackers": [{"acker": 0, "in_flight": 1000, "completed": 50000, "epoch": 1}],
}  # fmt: skip
told = partial(printed, "stream")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `words`."""
    (tmp_path / "streams.toml").write_text(
        '[words]\nkind = "wordcount"\ntopic = "lines"\n[words.tracking]\nackers = 2\nmax_ackers = 4\n'
    )
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", tmp_path / "streams.toml")):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "160")
    found = JobFolder(tmp_path / "streams" / "words")
    found.path.mkdir(parents=True)
    return found


def beat(folder: JobFolder, **tracking: Any) -> None:
    """A heartbeat of a job that runs."""
    beating = {"state": "running", "error": "", "at": time.time(), "started_at": 1.0, "pid": 7, "stages": {}}
    folder.write_heartbeat({**beating, "tracking": {**TRACKING, **tracking}})


def test_a_job_that_never_ran_is_told_as_such(folder: JobFolder) -> None:
    """And in JSON too."""
    assert "never started" in told("tracked")
    assert json.loads(told("tracked", "--json")) == [{"job": "words", "state": "never started"}]


def test_what_is_in_flight_completed_and_failed_is_told(folder: JobFolder) -> None:
    """With the times to completion, and the first offsets that are not through."""
    with folder.application_lock():
        beat(folder)
        words = told("tracked")
    for word in ("1,234", "56,789", "12", "3", "91 ms", "1.5 s", "0:700, 1:800"):
        assert word in words, word


def test_why_it_waits_is_told(folder: JobFolder) -> None:
    """The source, and time."""
    with folder.application_lock():
        beat(folder, waits=True, pause_reason="count is behind")
        words = told("tracked")
    assert "the source waits" in words and "time-outs stand still: count is behind" in words


def test_whether_a_range_is_through_is_told_by_words_and_by_exit_code(folder: JobFolder) -> None:
    """With what is missing."""
    write_json(folder.path / LOW_WATERMARKS, {"low_watermarks": {"0": 700, "1": 800}})
    assert "words: all through" in told("wait", "words", "--to", "0:700", "--to", "1:10")
    assert "not through: 50 messages of partition 0" in told("wait", "words", "--to", "0:750", code=3)


def test_ackers_are_added_and_removed(folder: JobFolder) -> None:
    """Each change is an epoch of the ring; one that cannot be is refused, and changes nothing."""
    assert "epoch 2 of the ring: ackers 0, 1, 2" in told("acker", "add", "words", "2")
    assert "epoch 3 of the ring: ackers 1, 2" in told("acker", "remove", "words", "0")
    done = invoke("stream", "acker", "add", "words", "4")
    assert done.exception is not None and "has room for ackers 0 to 3" in str(done.exception)
    assert "epoch 3 of the ring; room for ackers 0 to 3" in told("acker", "list", "words")
    listed = json.loads(told("acker", "list", "words", "--json"))
    assert [each["acker"] for each in listed if each["in_ring"]] == [1, 2] and listed[0]["epoch"] == 3
