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
    "in_flight": 1234, "completed": 56789, "retried": 12, "failed": 3, "bytes": 2_000_000, "source_paused": False,
    "pause_reason": "",
    "low_watermarks": {"0": 700, "1": 800}, "seconds": {"p50": 0.091, "p90": 0.1, "p99": 1.5},
    "ackers": [{"acker": 0, "in_flight": 1000, "completed": 50000, "epoch": 1}],
}  # fmt: skip
stream_output = partial(printed, "stream")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `words`."""
    (tmp_path / "streams.toml").write_text(
        '[words]\nkind = "wordcount"\ntopic = "lines"\n[words.tracking]\nackers = 2\nmax_ackers = 4\n'
    )
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", tmp_path / "streams.toml")):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "160")
    job_folder = JobFolder(tmp_path / "streams" / "words")
    job_folder.path.mkdir(parents=True)
    return job_folder


def write_heartbeat(folder: JobFolder, **tracking: Any) -> None:
    """A heartbeat of a job that runs."""
    heartbeat = {"state": "running", "error": "", "heartbeat_at": time.time(), "started_at": 1.0, "pid": 7}
    folder.write_heartbeat({**heartbeat, "stages": {}, "tracking": {**TRACKING, **tracking}})


def test_a_job_that_never_ran_is_shown_as_such(folder: JobFolder) -> None:
    """And in JSON too."""
    assert "never started" in stream_output("tracked")
    assert json.loads(stream_output("tracked", "--json")) == [{"job": "words", "state": "never started"}]


@pytest.mark.parametrize(
    ("tracking", "expected"),
    [
        ({}, ("1,234", "56,789", "12", "3", "91 ms", "1.5 s", "0:700, 1:800")),
        (
            {"source_paused": True, "pause_reason": "count lags"},
            ("the source is paused", "timeouts are paused: count lags"),
        ),
    ],
)
def test_what_tracking_reports_is_shown(folder: JobFolder, tracking: dict[str, Any], expected: tuple[str, ...]) -> None:
    """Roots, times to completion, the first offsets that are not completed; why the source or time is paused."""
    with folder.application_lock():
        write_heartbeat(folder, **tracking)
        output = stream_output("tracked")
    assert [text for text in expected if text not in output] == []


def test_whether_a_range_is_complete_is_printed_and_in_the_exit_code(folder: JobFolder) -> None:
    """With what is missing."""
    write_json(folder.path / LOW_WATERMARKS, {"low_watermarks": {"0": 700, "1": 800}})
    assert "words: all completed" in stream_output("wait", "words", "--to", "0:700", "--to", "1:10")
    assert "not completed: 50 messages of partition 0" in stream_output("wait", "words", "--to", "0:750", code=3)


def test_ackers_are_added_and_removed(folder: JobFolder) -> None:
    """Each change is an epoch of the ring; one that cannot be is refused, and changes nothing."""
    assert "epoch 2 of the ring: ackers 0, 1, 2" in stream_output("acker", "add", "words", "2")
    assert "epoch 3 of the ring: ackers 1, 2" in stream_output("acker", "remove", "words", "0")
    result = invoke("stream", "acker", "add", "words", "4")
    assert result.exception is not None and "expected 0 to 3" in str(result.exception)
    assert "epoch 3 of the ring; possible ackers: 0 to 3" in stream_output("acker", "list", "words")
    ackers = json.loads(stream_output("acker", "list", "words", "--json"))
    assert [each["acker"] for each in ackers if each["in_ring"]] == [1, 2] and ackers[0]["epoch"] == 3
