"""Which Java is taken: for the servers, and by Spark in a process whose user has named none."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from springline.services.errors import ServiceError
from springline.services.packages import java as servers_java
from springline.spark_jobs import errors, session
from springline.spark_jobs.jvm.java import find_java, packaged_java, use_java, version_of
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark import session as stream_session


def fake_java(folder: Path, version: str) -> Path:
    """A home of a Java that says its version and does nothing else."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_the_java_of_the_package_serves_where_the_machine_has_none(tmp_path: Path) -> None:
    """With an empty PATH the packaged Java is taken, and its wrapper drops the module that it does not hold.

    Java 8 says `1.8`; it is seen as 8, and passed over.
    """
    old = fake_java(tmp_path / "old", "1.8.0_402")
    assert version_of(old / "bin" / "java") == 8
    java = find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path)
    assert java == packaged_java(tmp_path) and java.version >= 17
    command = [str(java.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    completed_process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed_process.returncode == 0, completed_process.stderr


def test_spark_runs_on_the_java_that_was_found(tmp_path: Path) -> None:
    """PySpark looks at JAVA_HOME first; a Java that the user has named stays."""
    environment = {"PATH": str(fake_java(tmp_path / "new", "21.0.1") / "bin")}
    use_java(tmp_path, environment)
    assert environment["JAVA_HOME"] == str(tmp_path / "new")
    environment_with_home = {"JAVA_HOME": str(fake_java(tmp_path / "named", "17.0.9")), "PATH": environment["PATH"]}
    use_java(tmp_path, environment_with_home)
    assert environment_with_home["JAVA_HOME"] == str(tmp_path / "named")


def test_without_any_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an error of Spark jobs, and as one of services, which both command lines print in a line."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    expected = r"no Java of 17 or later in JAVA_HOME or on the PATH: install one, or run `make setup`"
    with pytest.raises(errors.JobError, match=expected):
        find_java({"PATH": ""}, tmp_path)
    with pytest.raises(ServiceError, match=expected):
        servers_java.find_java({"PATH": ""}, tmp_path)


class AskedError(Exception):
    """A Java was looked for."""


@pytest.mark.parametrize("module", [session, stream_session])
def test_a_session_looks_for_a_java_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    """Of operations in this process, and of a stream; in the home that the settings name."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))

    def ask(home: Path) -> None:
        assert home == tmp_path
        raise AskedError

    monkeypatch.setattr(module, "use_java", ask)
    with pytest.raises(AskedError):
        if module is session:
            SparkSessions(JobSettings(spark_remote="")).get()
        else:
            stream_session.open_session("ticks", StreamSettings())


def test_servers_run_their_classes_on_the_same_java(tmp_path: Path) -> None:
    """Sparingly, and with the options given."""
    home = fake_java(tmp_path / "named", "17.0.9")
    java = servers_java.find_java({"JAVA_HOME": str(home)}, tmp_path)
    assert (java.home, java.version, java.source) == (home, 17, "JAVA_HOME")
    command = java.command("org.Main", heap="64m", classpath=["a.jar", "b.jar"], options=["-Dx=1"])
    assert command[:2] == (str(home / "bin" / "java"), "-Xmx64m")
    assert command[-4:] == ("-Dx=1", "-cp", "a.jar:b.jar", "org.Main")
