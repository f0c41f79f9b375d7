"""What the commands about servers refuse, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.services.registry import SERVERS
from tests.support.commands import refused


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    ["up kafak", "down kafka kafak", "ps kafak", "logs kafak", "server kill kafak broker", "server exec kafak true"],
)
def test_a_server_that_there_is_not_is_named_with_those_that_there_are(arguments: str) -> None:
    """Whatever is asked of it, and before anything is done to the others."""
    message = refused(*arguments.split())
    assert message == f"springline: unknown server 'kafak'; available: {', '.join(SERVERS)}\n"


def test_a_setting_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that it is read from."""
    monkeypatch.setenv("SPRINGLINE_HDFS_DATANODES", "two")
    message = refused("ps")
    assert message.startswith("springline: SPRINGLINE_HDFS_DATANODES: ") and "valid integer" in message


def test_a_program_that_there_is_not_is_named() -> None:
    """It was to run in a server's environment."""
    message = refused("server", "exec", "zookeeper", "nosuch-program", status=1)
    assert message == "springline: nosuch-program cannot be run: No such file or directory\n"
