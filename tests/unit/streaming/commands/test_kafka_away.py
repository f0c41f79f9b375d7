"""Commands that talk to Kafka say within seconds that it does not answer, where, and what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.kafka import probe
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from tests.support.commands import failed

JOBS = """
[ticks]
topic = "ticks"
[ticks.stream]
time = "t"
fields = [["t", "timestamp(s)"], ["k", "text"]]

[words]
kind = "wordcount"
topic = "lines"
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streams.toml").write_text(JOBS)
    (tmp_path / "rows.csv").write_text("1,a\n")
    for name, value in (
        ("HOME", tmp_path),
        ("STREAMS_FILE", tmp_path / "streams.toml"),
        ("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1"),
    ):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "_REFUSED_SECONDS", 0.0)


@pytest.mark.parametrize(
    "command",
    [
        "stream start ticks",
        "stream results ticks",
        "topic send ticks rows.csv",
        "topic generate lines --rows 1",
        "stream reset ticks --yes",
        "stream rewind ticks",
        "stream dead-letters words",
        "stream retry words 0:0",
        "stream wait words",
    ],
)
def test_a_kafka_that_is_down_is_reported_at_once_with_what_to_do(command: str, tmp_path: Path) -> None:
    """No broker listens; nothing was started."""
    error = failed(*command.split())
    assert isinstance(error, LogUnavailableError)
    assert str(error).startswith("Kafka at 127.0.0.1:1 does not answer; Connection refused. Start it")
    assert "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS=HOST:PORT" in str(error)
    assert not (tmp_path / "streams" / "ticks" / "launched.json").exists()


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of one who listens, takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for each in connections:
            each.close()


def test_one_that_listens_and_does_not_answer_is_reported_too(mute: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that hangs, or another server."""
    monkeypatch.setattr(probe, "_ANSWER_SECONDS", 0.2)
    with pytest.raises(LogUnavailableError, match=rf"Kafka at 127.0.0.1:{mute} does not answer; .+\. Start it"):
        probe.require_answer(Cluster(f"127.0.0.1:{mute}"))


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("", "'' is not HOST:PORT"),
        ("kafka", "'kafka' is not HOST:PORT"),
        ("h:1,127.0.0.1:99999", "'127.0.0.1:99999' is"),
    ],
)
def test_an_address_that_is_none_is_named(servers: str, reason: str) -> None:
    """As it was written."""
    with pytest.raises(LogUnavailableError, match=f"does not answer; {reason}"):
        probe.require_answer(Cluster(servers))
