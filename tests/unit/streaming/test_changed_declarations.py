"""A declaration that was changed since the job ran: it holds from the next start on, or the job says why it cannot."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.windows.registry_file import read_registry
from tests.support.streams.declarations import join_sides, written

STREAM = '[job.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"], ["k", "text"]]\n'
QUERY = '[job.queries]\nq = "SELECT k, count(*) AS n FROM job GROUP BY k WINDOWING 5 s"\n'
JOIN = '[job]\nkind = "join"\non = "{on}"\nparallelism = 2\nttl = {ttl}\n' + join_sides("job", "one", "two")


def declared_job(folder: Path, text: str) -> Job:
    """The job that a file declares."""
    return read_job(written(folder, text), "job")


def windows(folder: Path, stream: str = STREAM, query: str = QUERY) -> Job:
    """A job with that stream and query."""
    return declared_job(folder, f'[job]\ntopic = "t"\n{stream}{query}')


def test_a_changed_stream_is_effective_from_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was not declared again stays; nothing is reported where nothing has changed."""
    folder = JobFolder(tmp_path / "job")
    windows(tmp_path).prepare(folder)
    with caplog.at_level(logging.INFO, "springline.stream"):
        windows(tmp_path).prepare(folder)
        assert not caplog.messages
        windows(tmp_path, f"{STREAM}idle_timeout = 77.0\nlateness = 2.0\n").prepare(folder)
    registry = read_registry(folder)
    assert registry is not None and registry.stream("job").idle_timeout == 77.0 and registry.version == 2
    (message,) = caplog.messages
    assert message == "job: its stream declaration has changed: lateness, idle_timeout; effective from the next round"


def test_a_changed_stream_that_a_registered_query_does_not_fit_is_refused(tmp_path: Path) -> None:
    """With what helps; the stream stays as it was."""
    folder = JobFolder(tmp_path / "job")
    windows(tmp_path).prepare(folder)
    changed_job = windows(tmp_path, STREAM.replace('"k"', '"key"'), "")
    expected = r"\[job.stream\] has changed, and a registered query does not fit it: query 'q'.*stream cancel job q"
    with pytest.raises(InvalidJobError, match=expected):
        changed_job.prepare(folder)
    registry = read_registry(folder)
    assert registry is not None and [field.name for field in registry.stream("job").fields] == ["t", "k"]


def test_a_query_declared_other_than_registered_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It counts when the job first starts; people may have changed it since."""
    folder = JobFolder(tmp_path / "job")
    windows(tmp_path).prepare(folder)
    with caplog.at_level(logging.INFO, "springline.stream"):
        windows(tmp_path, query=QUERY.replace("5 s", "9 s")).prepare(folder)
    (message,) = caplog.messages
    assert message.startswith(
        "job: q: the registered queries apply, not the declared ones, because the job ran before; "
    )


def test_the_predicate_of_a_join_that_ran_is_refused_until_it_is_reset(tmp_path: Path) -> None:
    """Its units hold what was stored for the one before; what tuples do not depend on may change."""
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    first = declared_job(tmp_path, JOIN.format(on="l.k = r.k", ttl=60.0))
    first.prepare(folder)
    declared_job(tmp_path, JOIN.format(on="l.k = r.k", ttl=30.0)).prepare(folder)
    changed_job = declared_job(tmp_path, JOIN.format(on="l.k = r.k AND l.k > 1", ttl=60.0))
    with pytest.raises(InvalidJobError, match=r"job 'job': on cannot be changed after .* reset the job: `.*reset job`"):
        changed_job.prepare(folder)
    changed_job.on_rewind(folder)
    changed_job.prepare(folder)
    assert json.loads((folder.path / "condition.json").read_text())["value"]["where"] == "l.k = r.k AND l.k > 1"
