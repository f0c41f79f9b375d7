"""The settings of the Spark jobs, and the address of a Spark Connect server."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_settings import SettingsError

from springline.spark_jobs.errors import SparkUnavailableError
from springline.spark_jobs.session import Address, SparkSessions
from springline.spark_jobs.settings import JobSettings


def test_settings_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPRINGLINE_<NAME>, lists separated by commas; an empty setting is none: landing files are in the home then."""
    monkeypatch.setenv("SPRINGLINE_SPARK_REMOTE", "sc://host:1")
    monkeypatch.setenv("SPRINGLINE_OPERATIONS", "mine.one, mine.two")
    monkeypatch.setenv("SPRINGLINE_LANDING_URI", "/somewhere")
    settings = JobSettings()
    assert settings.spark_remote == "sc://host:1"
    assert settings.operations == ("mine.one", "mine.two")
    assert settings.landing_address == "/somewhere"
    monkeypatch.setenv("SPRINGLINE_LANDING_URI", "")
    assert JobSettings(home=tmp_path).landing_address == str(tmp_path / "landing")


def test_an_unknown_mode_of_the_gate_is_refused() -> None:
    """When the settings are read, not when the gate is reached."""
    with pytest.raises(SettingsError, match=r"^SPRINGLINE_QUALITY_MODE: "):
        JobSettings(quality_mode="maybe")


def test_an_address_has_spark_s_port_by_default() -> None:
    """sc://host is enough."""
    assert Address.parse("sc://spark.example") == Address("spark.example", 15002)
    assert Address.parse("sc://h:1/;user_id=x") == Address("h", 1)


def test_a_server_that_is_not_there_is_named_with_what_starts_it(unused_port: int) -> None:
    """After the patience has run out, by the clock that was given."""
    times = iter(range(100))
    naps: list[float] = []
    settings = JobSettings(spark_remote=f"sc://127.0.0.1:{unused_port}", spark_timeout=3)
    sessions = SparkSessions(settings, clock=lambda: float(next(times)), sleep=naps.append)
    with pytest.raises(SparkUnavailableError, match=rf"127\.0\.0\.1:{unused_port} .*springline up spark-connect"):
        sessions.get()
    assert len(naps) == 2


@pytest.fixture
def unused_port() -> int:
    """A port that nothing listens on."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
