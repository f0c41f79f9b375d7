"""`stream rewind` of a tracked job: its low-water marks go back with it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.commands import savepoints
from springline.spark_jobs.streaming.job import make_stages, topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS
from springline.testing.memory_log import MemoryLog
from tests.support.commands import printed
from tests.support.streams.declarations import written


class Log(MemoryLog):
    """What the command finds instead of Kafka."""

    def close(self) -> None: ...


def test_a_job_that_goes_back_has_nothing_through_ahead_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks never go back while it runs: earlier ones would report records as complete that are read again."""
    file = written(tmp_path, '[words]\nkind = "wordcount"\ntopic = "lines"\n')
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(file))
    job, folder = read_tracked_job(file, "words"), JobFolder(tmp_path / "streams" / "words")
    log = Log({"lines": 2, **topics_of_stages(job)})
    Planner(make_stages(job, StreamSettings())[0], log, lambda: 1.0, dict).begin()
    folder.path.mkdir(parents=True)
    job.prepare(folder)
    write_json(folder.path / LOW_WATERMARKS, {"low_watermarks": {"0": 7, "1": 3}})
    monkeypatch.setattr(savepoints, "opened_log", lambda: nullcontext(log))
    assert "as incarnation 2" in printed("stream", "rewind", "words")
    assert read_json(folder.path / LOW_WATERMARKS) == {"low_watermarks": {}}
