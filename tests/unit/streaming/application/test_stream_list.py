"""The command that lists streams: the worst first, with the health and the reason that the pages show."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.support.commands import printed
from tests.support.streams.declared_streams import crash, declare, ticks_heartbeat


@pytest.fixture
def lagging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of `ticks`, which lags, beside a job that failed and others that never ran."""
    declare(tmp_path / "streams.toml")
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    crash(JobFolder(tmp_path / "streams" / "crashed"))
    folder = JobFolder(tmp_path / "streams" / "ticks")
    folder.make()
    folder.write_heartbeat(ticks_heartbeat(100))
    return folder


def test_jobs_are_listed_with_health_and_reason_the_worst_first(lagging: JobFolder) -> None:
    """And since when it is so; as JSON too."""
    with lagging.application_lock():
        output, jobs = printed("stream", "list"), json.loads(printed("stream", "list", "--json"))
    lines = output.splitlines()
    (failed,) = (number for number, line in enumerate(lines) if line.split()[:1] == ["crashed"])
    (lagging_line,) = (number for number, line in enumerate(lines) if line.split()[:1] == ["ticks"])
    assert failed < lagging_line
    assert "failed" in lines[failed] and "lagging" in lines[lagging_line]
    assert time.strftime("%H:", time.localtime(time.time() - 1_260)) in lines[lagging_line]
    text = " ".join(output.split())
    assert "4,810 messages behind, 23 s to drain: reduce is overloaded and throttles map" in text
    assert "no application of it has run yet" in text
    health = {job["job"]: job["health"] for job in jobs}
    assert (jobs[0]["job"], health["ticks"], health["never"]) == ("crashed", "lagging", "never started")
