"""How a tracked job is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import UnknownJobError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS, RING, Delivery
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of
from tests.support.streams.declarations import written

WORD_COUNT = '[words]\nkind = "wordcount"\ntopic = "lines"\n'


def test_a_word_count_is_tracked_exactly_once_unless_it_says_otherwise(tmp_path: Path) -> None:
    """With one acker and a time-out of 30 seconds."""
    job = read_tracked_job(written(tmp_path, WORD_COUNT), "words")
    tracked = job.tracking
    assert (tracked.ackers, tracked.timeout, tracked.delivery) == (1, 30.0, Delivery.EXACTLY_ONCE)
    stages = {stage.name: stage for stage in place_stages(job.name, job.stages())}
    assert set(stages) == {"split", "retry", "count", "acker"}
    assert {stage.topic for stage in stages.values()} - set(topics_of_stages(job)) == {"lines"}
    assert all(stage.make_step() for stage in stages.values())


def test_at_most_once_tries_once(tmp_path: Path) -> None:
    """However many tries are declared."""
    text = f'{WORD_COUNT}[words.tracking]\ndelivery = "at-most-once"\nmax_attempts = 7\n'
    assert read_tracked_job(written(tmp_path, text), "words").tracking.attempts == 1


def test_a_job_of_another_kind_says_what_it_lacks(tmp_path: Path) -> None:
    """Queries, or tracking."""
    file = written(
        tmp_path, f'{WORD_COUNT}[ticks]\ntopic = "t"\n[ticks.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"]]\n'
    )  # fmt: skip
    with pytest.raises(UnknownJobError, match="words: it is not a windows job"):
        queryable_job_of(file, "words")
    with pytest.raises(UnknownJobError, match="ticks: its records are not tracked"):
        read_tracked_job(file, "ticks")


def test_what_rounds_name_is_made_once_and_kept(tmp_path: Path) -> None:
    """A ring that was changed, and marks, outlive the application."""
    job = read_tracked_job(written(tmp_path, WORD_COUNT), "words")
    folder = JobFolder(tmp_path)
    job.prepare(folder)
    assert read_json(tmp_path / RING) == {"max_ackers": 2, "epochs": {"1": [0]}}
    (tmp_path / LOW_WATERMARKS).write_text('{"low_watermarks": {"0": 5}}')
    job.prepare(folder)
    assert read_json(tmp_path / LOW_WATERMARKS) == {"low_watermarks": {"0": 5}}
