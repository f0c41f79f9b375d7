"""A store and a policy as packages of others: installed, and used by name only, through settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import project_folder
from tests.support.extension import installed

WORDS_MODULE = files_in((project_folder() / "docs" / "persistence.md").read_text(encoding="utf-8"))["words.py"]
READ = """
from springline import open_platform
platform = open_platform()
with platform.store.read("words/count") as reading:
    print(open(reading.uri.removeprefix("file://") + "/part.txt").read())
"""
Run = Callable[..., str]


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[..., Run]:
    """Gives what runs Python with an example package installed, in a folder with words.py and these settings."""
    (tmp_path / "words.py").write_text(WORDS_MODULE, encoding="utf-8")

    def make(package: str, **settings: str) -> Run:
        environment = {
            **installed(package, tmp_path),
            "SPRINGLINE_HOME": str(tmp_path / "home"),
            "SPRINGLINE_CACHE_URI": (tmp_path / "cache").as_uri(),
            "SPRINGLINE_RUNNER": "words:WordsRunner",
            **{f"SPRINGLINE_{name.upper()}": value for name, value in settings.items()},
        }
        environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"

        def run(*arguments: str, status: int = 0) -> str:
            command = [sys.executable, *arguments]
            completed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert completed.returncode == status, f"{arguments}\n{completed.stdout}\n{completed.stderr}"
            return completed.stdout + completed.stderr

        return run

    return make


def test_an_installed_store_keeps_what_the_cache_loses(run_with: Callable[..., Run], tmp_path: Path) -> None:
    """Datasets are written, persisted into it, wiped from the cache and brought back, byte for byte."""
    uri = f"{(tmp_path / 'kept.db').as_uri().replace('file', 'sqlite')}"
    run = run_with("store", under_uri=f"{uri}?patience=30", prove="false")
    run("words.py", "async_store")
    output = run("-c", READ)
    assert "3 persisted, 0 remaining" in run("-m", "springline", "queue", "persist")
    shutil.rmtree(tmp_path / "cache")
    assert "3 lost, 3 of them persisted" in run("-m", "springline", "dataset", "recover")
    assert run("-c", READ) == output and "question 20000" in output
    assert (tmp_path / "kept.db").stat().st_size > 1_600_000


def test_an_installed_store_says_what_it_does_not_take(run_with: Callable[..., Run]) -> None:
    """A role, and an option by name; the error of an unknown kind lists those that are installed."""
    run = run_with("store")
    open_it = "from springline import *; open_platform(Settings(under_uri={!r}))"
    for uri, message in (
        ("sqlite:///x.db?wait=1", "a store of this kind has no option 'wait'; its options: patience"),
        ("sqlite://host/x.db", "give sqlite:///an/absolute/file.db, as under-store"),
        (
            "tape:///x",
            "no installed package provides 'tape'; installed: abfs, alluxio, file, gs, hdfs, memory, s3, sftp, sqlite",
        ),
    ):
        assert message in run("-c", open_it.format(uri), status=1)


def test_an_installed_policy_orders_the_queue(run_with: Callable[..., Run]) -> None:
    """Its scores are those that the queue shows, and its name is listed with the others."""
    run = run_with("policy", policy="smallest")
    run("words.py", "async_store")
    waiting = json.loads(run("-m", "springline", "queue", "list", "--json"))
    assert [each["dataset"] for each in waiting] == ["words/count@1", "words/load@1", "words/split@1"]
    assert [each["reason"] for each in waiting] == ["it has 81 B", "it has 800 kB", "it has 800 kB"]
    other = json.loads(run("-m", "springline", "queue", "list", "--json", "--what-if", "policy=fifo"))
    assert other[0]["dataset"] == "words/load@1"
    assert "paper, smallest, value-density" in run("-m", "springline", "config", "list")


@pytest.mark.parametrize(("package", "file"), [("store", "sqlite_suite.py"), ("format", "msgpack_suite.py")])
def test_a_package_passes_the_suite(package: str, file: str, tmp_path: Path) -> None:
    """Every fact of the conformance suite, in a process of its own."""
    environment = installed(package, tmp_path)
    environment["PYTHONPATH"] += f":{project_folder()}"
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{package}-source/{file}"]
    completed = subprocess.run(suite, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert completed.returncode == 0 and " passed" in completed.stdout, completed.stdout
