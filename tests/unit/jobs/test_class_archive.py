"""Tests of the archive of Spark's classes: for which Java it is, and that it comes whole or not at all."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from springline.spark_jobs.errors import ClassArchiveError
from springline.spark_jobs.jvm import class_archive


@pytest.fixture(autouse=True)
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment without an archive; its path has a blank."""
    prefix = tmp_path / "an environment"
    monkeypatch.setattr(sys, "prefix", str(prefix))
    return prefix


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java that is found."""
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "libjvm.so").write_bytes(b"one")

    class JavaStub:
        def __init__(self) -> None:
            self.home = home

    monkeypatch.setattr(class_archive, "find_java", lambda environment, home: JavaStub())
    return home


def make_with(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this code, as a module of its own, make archives."""
    (tmp_path / "workload.py").write_text(f"import sys, pathlib\n{code}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(class_archive, "_WORKLOAD", "workload")


def test_without_an_archive_java_gets_no_options(java_home: Path) -> None:
    assert class_archive.class_sharing_options(java_home) == ""


def test_an_archive_is_for_the_very_java_that_it_was_made_with(
    java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_with("pathlib.Path(sys.argv[1]).write_text('classes')", tmp_path, monkeypatch)
    archive = class_archive.make_archive(tmp_path)
    assert archive.read_text() == "classes"
    assert shlex.split(class_archive.class_sharing_options(java_home))[0] == f"-XX:SharedArchiveFile={archive}"
    (java_home / "lib" / "server" / "libjvm.so").write_bytes(b"another one")
    assert class_archive.class_sharing_options(java_home) == ""


def test_one_that_is_there_is_not_made_again_and_those_for_another_spark_go(
    java_home: Path, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = class_archive.archive_of(java_home)
    outdated = archive.with_name("spark-3.5.0-0123456789ab.jsa")
    archive.parent.mkdir(parents=True)
    outdated.touch()
    make_with("pathlib.Path(sys.argv[1]).write_text('first')", tmp_path, monkeypatch)
    assert class_archive.make_archive(tmp_path) == archive
    assert not outdated.exists()
    make_with("sys.exit('made again')", tmp_path, monkeypatch)
    assert class_archive.make_archive(tmp_path).read_text() == "first"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pathlib.Path(sys.argv[1]).write_text('half'); sys.exit('No space left on device')", "No space left"),
        ("print('the base archive is missing')", "the base archive is missing"),
        ("sys.exit(3)", "exit status 3"),
    ],
)
def test_half_an_archive_is_none(
    code: str, reason: str, java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM would die of it."""
    make_with(code, tmp_path, monkeypatch)
    with pytest.raises(ClassArchiveError, match=reason):
        class_archive.make_archive(tmp_path)
    assert class_archive.class_sharing_options(java_home) == ""
    assert not list(class_archive.archive_of(java_home).parent.iterdir())


def test_where_nothing_can_be_written_it_says_so(
    java_home: Path, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix.write_text("no folder")
    make_with("", tmp_path, monkeypatch)
    with pytest.raises(ClassArchiveError, match="an environment"):
        class_archive.make_archive(tmp_path)
