"""docs/howto.md: what it shows does what it says; its commands are run with those of all documents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import import_root, project_folder
from springline.testing import StageRun

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Python with the files that the page shows."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("file", ["remembering_suite.py", "pipeline_test.py"])
def test_the_tests_that_are_shown_pass(shown: Path, file: str) -> None:
    """The store every fact of the suite, in a process of its own that knows nothing of the checkout's tests."""
    told = {"PYTHONPATH": f"{shown}:{import_root()}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(shown / file)]
    done = subprocess.run(command, cwd=shown, env={**os.environ, **told}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert " failed" not in done.stdout and " passed" in done.stdout


def test_the_step_that_is_shown_runs_in_a_stage(shown: Path, tmp_path: Path) -> None:
    """It tells each record once, across rounds and a worker without memory, and puts aside what is no number."""
    run = StageRun("records", tmp_path, arguments={"least": 0.0}, modules=("records",), admitted=2)
    run.feed("3", "2", "tall", "5", "5", "8")
    while run.turn():
        run.restart()
    assert [row["record"] for row in run.results()] == [3.0, 5.0, 8.0]
    assert [letter.value for letter in run.dead_letters()] == [b"tall"]
