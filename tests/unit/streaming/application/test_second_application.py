"""The application of the stages apart, as that of the job sees it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.application import second_application
from springline.spark_jobs.streaming.application.second_application import SecondApplication
from springline.spark_jobs.streaming.errors import StreamError


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is started in the application's stead: a script that a test writes."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(second_application, "_TIMEOUT_SECONDS", 0.5)
    return script


def ended(other: SecondApplication) -> None:
    """Wait until the process has ended."""
    assert other._process is not None
    other._process.wait(10)


def test_one_that_fails_is_reported(python: Path) -> None:
    """By the next look; one that ends in peace, as it does when the job is asked to stop, is no trouble."""
    python.write_text("#!/bin/sh\nexit 0\n")
    with SecondApplication("words") as other:
        ended(other)
        other.check()
    python.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(StreamError, match="its second application has failed"), SecondApplication("words") as other:
        ended(other)
        other.check()


def test_one_that_goes_on_is_ended(python: Path) -> None:
    """After a while, or at once where the job has failed."""
    with SecondApplication("words") as other:
        other.check()
    ended(other)
    with pytest.raises(ValueError, match="failed"), SecondApplication("words") as other:
        raise ValueError("the job has failed")
    ended(other)
