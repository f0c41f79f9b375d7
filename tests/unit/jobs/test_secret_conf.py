"""Secrets among Spark's settings are in no list of processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from springline.spark_jobs.jvm.secret_conf import hide_secret_conf
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark.session import open_session

CONF = {"spark.hadoop.fs.s3a.secret.key": "hunter2 = #\u00e9\n", "spark.ssl.keyPassword": "hunter3", "spark.a": "b"}


class StartedError(Exception):
    """Spark would be started now."""


@pytest.fixture
def spark_commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands by which Spark would have been started; it is not."""
    commands: list[list[str]] = []

    def start(command: list[str], **_: Any) -> None:
        file = Path(command[command.index("--properties-file") + 1])
        assert "hunter3" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        commands.append(command)
        raise StartedError

    assert SparkContext._gateway is None, "this process has Spark already"
    monkeypatch.setattr(java_gateway, "Popen", start)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    return commands


@pytest.mark.parametrize("which", ["operations", "streams"])
def test_a_secret_setting_is_no_argument_of_sparks_process(
    spark_commands: list[list[str]], which: str, tmp_path: Path
) -> None:
    """It goes by a file of its owner's, gone once Spark has started; the others are handed over as ever."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with pytest.raises(StartedError):
        if which == "operations":
            SparkSessions(JobSettings(home=tmp_path, spark_conf=CONF)).get()
        else:
            open_session("job", StreamSettings(home=tmp_path, stream_conf=CONF))
    (command,) = spark_commands
    assert "hunter" not in " ".join(command) and "spark.a=b" in command
    assert not Path(command[command.index("--properties-file") + 1]).exists()
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") == before


def test_the_file_says_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever letters it holds, as Java reads properties; without a secret no file and no argument."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    before = dict(os.environ)
    with hide_secret_conf({"spark.a": "b"}) as visible_conf:
        assert visible_conf == {"spark.a": "b"} and dict(os.environ) == before
    with hide_secret_conf(CONF) as visible_conf:
        arguments = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        lines = Path(arguments[2]).read_text(encoding="ascii").splitlines()
    assert visible_conf == {"spark.a": "b"} and arguments[3:] == ["--verbose", "pyspark-shell"]
    values = dict(line.split("=") for line in lines)
    assert {k.encode().decode("unicode_escape"): v.encode().decode("unicode_escape") for k, v in values.items()} == {
        name: value for name, value in CONF.items() if name != "spark.a"
    }
