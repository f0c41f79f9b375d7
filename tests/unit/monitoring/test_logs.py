"""Logs: text for people or an object a line, with what the line is about, and never with a password."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from springline.persistence.model.dataset import Strategy
from springline.persistence.monitoring.logs import configure_logging, log_context
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make

ROOT = Path(__file__).parents[3]


@pytest.fixture
def logged() -> Iterator[Callable[..., io.StringIO]]:
    """Starts logging with the settings given; returns where the lines go."""
    loggers = [logging.getLogger(), logging.getLogger("springline")]
    before = [(logger, list(logger.handlers), logger.level) for logger in loggers]

    def start(**settings: str) -> io.StringIO:
        lines = io.StringIO()
        configure_logging(MonitoringSettings(**settings), lines)  # type: ignore[arg-type]
        return lines

    yield start
    for logger, handlers, level in before:
        logger.handlers, logger.level = handlers, level


def objects(lines: io.StringIO) -> list[dict[str, Any]]:
    """Every line as what it holds."""
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_text_is_the_message_alone(logged: Callable[..., io.StringIO]) -> None:
    """As it is by default; other libraries' lines go where they went."""
    lines = logged()
    with log_context(dataset="a@1"):
        logging.getLogger("springline.persister").info("a@1: data in %s", "1 s")
    logging.getLogger("other").error("elsewhere")
    assert lines.getvalue() == "a@1: data in 1 s\n"


def test_json_is_an_object_a_line_with_what_it_is_about(logged: Callable[..., io.StringIO]) -> None:
    """Fields of an inner block beside those of an outer one, and gone after it; a traceback; other libraries' lines."""
    lines = logged(log_format="json")
    logger = logging.getLogger("springline.unit")
    with log_context(job="flights"):
        with log_context(stage="map", unit=1, round=7):
            logger.warning("one\ntwo")
        logger.info("later")
    logging.getLogger("other").warning("elsewhere")
    try:
        raise OSError("the disk is full")
    except OSError:
        logger.exception("it failed")
    first, second, third, failed = objects(lines)
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "warning", "logger": "springline.unit", "message": "one\ntwo", "job": "flights", "stage": "map",
        "unit": 1, "round": 7,
    }  # fmt: skip
    assert "unit" not in second and second["job"] == "flights" and "job" not in third
    assert failed["message"] == "it failed" and "OSError: the disk is full" in failed["error"]


def test_what_is_below_the_level_is_left_out(logged: Callable[..., io.StringIO]) -> None:
    """Rounds of units are logged at the level debug."""
    for level, count in (("info", 0), ("debug", 1)):
        lines = logged(log_level=level)
        logging.getLogger("springline.unit").debug("round done")
        assert lines.getvalue().count("round done") == count


def test_starting_again_takes_the_first_ones_place(logged: Callable[..., io.StringIO]) -> None:
    """No line is logged twice."""
    first, second = logged(), logged(log_format="json")
    logging.getLogger("springline.x").warning("once")
    assert not first.getvalue() and len(objects(second)) == 1


# ---- secrets


@pytest.mark.parametrize("log", ["text", "json"])
def test_no_password_is_logged(logged: Callable[..., io.StringIO], log: str) -> None:
    """Neither in a URL nor as an option, in the message nor in the traceback."""
    lines = logged(log_format=log)
    logger = logging.getLogger("springline.persister")
    try:
        raise ValueError("postgresql+psycopg://ann:hunter2@db/catalog does not answer")
    except ValueError as error:
        logger.exception("%s; sasl.password=hunter2, {'ssl.key.password': 'hunter2'}", error)
    assert "hunter2" not in lines.getvalue()
    assert "postgresql+psycopg://ann:***@db/catalog" in lines.getvalue()


# ---- who logs


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command on a platform in this test's folder."""
    env = {**os.environ, "SPRINGLINE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT / "src"), **environment}
    command = [sys.executable, "-m", "springline", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("log", ["text", "json"])
def test_the_persister_logs_each_transfer(open_at: Callable[..., Platform], tmp_path: Path, log: str) -> None:
    """As JSON, every line of it is an object that names the dataset."""
    platform = open_at()
    dataset = make(platform, "a", "load", strategy=Strategy.ASYNC_STORE)
    settings = {"SPRINGLINE_CACHE_URI": f"file://{tmp_path}/cache", "SPRINGLINE_LOG_FORMAT": log}
    result = run(tmp_path, "queue", "persist", **settings)
    assert result.returncode == 0, result.stderr
    first, last = result.stdout.splitlines()
    if log == "text":
        assert first.startswith("a@1: data in ") and last == "1 persisted, 0 remaining"
        return
    entry = json.loads(first)
    assert (entry["dataset"], entry["logger"], entry["level"]) == (str(dataset.ref), "springline.persister", "info")
    assert json.loads(last)["message"] == "1 persisted, 0 remaining"
