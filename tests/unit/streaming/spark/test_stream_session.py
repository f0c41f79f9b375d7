"""The Spark session of a stream: what it is named, and where it keeps its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark import session


class StartedError(Exception):
    """Spark would start now."""


class Builder:
    """Takes what a session is to be."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def appName(self, name: str) -> Builder:
        self.options["name"] = name
        return self

    def master(self, name: str) -> Builder:
        return self

    def config(self, map: dict[str, str]) -> Builder:
        self.options |= map
        return self

    def getOrCreate(self) -> None:
        raise StartedError


def test_a_session_has_the_name_and_the_folder_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files go when the next application begins, if it is killed; nor is it a client of who started it."""
    home = tmp_path / "a home"
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:15002")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    builder = Builder()
    monkeypatch.setattr(session.SparkSession, "builder", builder)
    with pytest.raises(StartedError):
        session.open_session("ticks", StreamSettings(home=home))
    folder = JobFolder(home / "streams" / "ticks")
    (files,) = folder.scratch.iterdir()
    assert not [name for name in os.environ if name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")]
    assert builder.options["name"] == "Springline ticks"
    assert builder.options["spark.local.dir"] == str(files)
    assert builder.options["spark.driver.extraJavaOptions"].endswith(f'"-Djava.io.tmpdir={files}"')
    killed = files.rename(files.with_name("1"))
    folder.own_scratch.mkdir()
    folder.discard_leftovers()
    assert not killed.exists() and folder.own_scratch.exists()
