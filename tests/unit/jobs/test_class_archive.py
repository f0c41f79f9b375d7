"""Tests of the archive of Spark's classes: for which Java it is, and that it comes whole or not at all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

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

    monkeypatch.setattr(class_archive, "find_java", lambda *_: SimpleNamespace(home=home))
    return home


@pytest.fixture
def make_with(java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes the archive of that Java, by this code as a module of its own."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(class_archive, "_WORKLOAD", "workload")

    def make(code: str) -> Path:
        (tmp_path / "workload.py").write_text(f"import sys, pathlib\n{code}\n")
        return class_archive.make_archive(tmp_path)

    return make


def test_an_archive_is_for_the_very_java_that_it_was_made_with(
    java_home: Path, make_with: Callable[[str], Path]
) -> None:
    """Without one, Java gets no options."""
    assert class_archive.class_sharing_options(java_home) == ""
    archive = make_with("pathlib.Path(sys.argv[1]).write_text('classes')")
    assert archive.read_text() == "classes"
    assert shlex.split(class_archive.class_sharing_options(java_home))[0] == f"-XX:SharedArchiveFile={archive}"
    (java_home / "lib" / "server" / "libjvm.so").write_bytes(b"another one")
    assert class_archive.class_sharing_options(java_home) == ""


def test_an_existing_archive_is_reused_and_those_for_another_spark_are_deleted(
    java_home: Path, make_with: Callable[[str], Path]
) -> None:
    """The workload does not run a second time."""
    archive = class_archive.archive_of(java_home)
    outdated = archive.with_name("spark-3.5.0-0123456789ab.jsa")
    archive.parent.mkdir(parents=True)
    outdated.touch()
    assert make_with("pathlib.Path(sys.argv[1]).write_text('first')") == archive
    assert not outdated.exists()
    assert make_with("sys.exit('made again')").read_text() == "first"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pathlib.Path(sys.argv[1]).write_text('half'); sys.exit('No space left on device')", "No space left"),
        ("print('the base archive is missing')", "the base archive is missing"),
        ("sys.exit(3)", "exit status 3"),
    ],
)
def test_half_an_archive_is_none(code: str, reason: str, java_home: Path, make_with: Callable[[str], Path]) -> None:
    """A JVM would die of it."""
    with pytest.raises(ClassArchiveError, match=reason):
        make_with(code)
    assert class_archive.class_sharing_options(java_home) == ""
    assert not list(class_archive.archive_of(java_home).parent.iterdir())


def test_where_nothing_can_be_written_it_says_so(prefix: Path, make_with: Callable[[str], Path]) -> None:
    """The error names the place."""
    prefix.write_text("no folder")
    with pytest.raises(ClassArchiveError, match="an environment"):
        make_with("")
