"""What works beside the stages goes on after an error, and says where it was; what ends it ends the application."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints import checkpointer
from springline.spark_jobs.streaming.checkpoints.checkpointer import Checkpointer
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import Stage


class TestedService(BackgroundService):
    """Tries some errors, one a turn."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__("trying")
        self._errors = errors
        self.turns = 0

    def _work(self) -> None:
        for error in self._errors:
            with self._trying("it is not done"):
                self.turns += 1
                if error is not None:
                    raise error


class Ending(BackgroundService):
    """Cannot even begin."""

    def _work(self) -> None:
        raise KeyError("nothing is there")


def test_an_unexpected_error_is_logged_and_the_next_turn_comes(caplog: pytest.LogCaptureFixture) -> None:
    """The log says where it was, once; one that was foreseen is said in words."""
    errors = (KeyError("a"), KeyError("a"), StreamError("no broker"))
    with caplog.at_level(logging.WARNING, "springline.stream"), TestedService(*errors) as service:
        service.join()
    service.check()
    assert service.turns == 3 and service.last_error == "it is not done: no broker"
    records = [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records]
    assert records == [
        ("ERROR", "it is not done: KeyError: 'a'", True), ("WARNING", "it is not done: no broker", False)
    ]  # fmt: skip


def test_a_turn_without_an_error_ends_the_trouble() -> None:
    """It is over."""
    with TestedService(StreamError("no broker"), None) as service:
        service.join()
    assert service.last_error == ""


def test_work_that_ends_of_an_error_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    """The application looks at each heartbeat, and ends with that error."""
    with caplog.at_level(logging.ERROR, "springline.stream"), Ending("oversight") as ending:
        ending.join()
    (record,) = caplog.records
    assert record.exc_info is not None
    with pytest.raises(StreamError, match="oversight has ended: KeyError: 'nothing is there'"):
        ending.check()


def test_savepoints_go_on_after_an_error(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And who asked for a savepoint hears of it."""
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    folder.request_savepoint("monday")
    saved = threading.Event()

    def failing(*_: object) -> None:
        raise KeyError("taken")

    stage = Stage("map", "", "topic", job="job")
    monkeypatch.setattr(checkpointer, "make_requested", failing)
    new_checkpointer = Checkpointer(folder, [stage], platform, Cluster("nowhere"), 1e-9)
    monkeypatch.setattr(new_checkpointer, "_truncate_logs", saved.set)
    with new_checkpointer:
        assert saved.wait(10)
    new_checkpointer.check()
    assert folder.savepoint_error() == "KeyError: 'taken'"
    assert "savepoint failed: KeyError" in new_checkpointer.last_error
