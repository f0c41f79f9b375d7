"""docs/howto.md: its packages are those that tests install and use, its tests pass, its step does what it says.

Its commands are run with all documents'.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import import_root, project_folder
from springline.testing import StageRun
from tests.support.extension import FOLDER

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", ["store", "policy", "stream_kind"])
def test_the_packages_that_are_shown_are_those_that_are_installed(package: str) -> None:
    """Each file but their README, as it lies in tests/extensions, where tests install and use them."""
    shown = {name: content for name, content in FILES.items() if name.startswith(f"{package}/")}
    paths = (path for path in (FOLDER / package).rglob("*") if path.suffix in (".py", ".toml"))
    assert shown == {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_the_tests_that_are_shown_pass(tmp_path: Path) -> None:
    """In a process of its own that knows nothing of the checkout's tests."""
    (tmp_path / "pipeline_test.py").write_text(FILES["pipeline_test.py"], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "pipeline_test.py")]
    environment = {**os.environ, "PYTHONPATH": str(import_root())}
    completed_process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert completed_process.returncode == 0, completed_process.stdout
    assert " failed" not in completed_process.stdout and " passed" in completed_process.stdout


def test_the_step_that_is_shown_runs_in_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It emits each record once, across rounds and a worker without memory, and puts aside what is no number."""
    monkeypatch.syspath_prepend(str(FOLDER / "stream_kind"))
    run = StageRun("heights.step:Records", tmp_path, arguments={"least": 0.0}, admitted=2)
    run.feed("3", "2", "tall", "5", "5", "8")
    while run.turn():
        run.restart()
    assert [row["record"] for row in run.results()] == [3.0, 5.0, 8.0]
    assert [letter.value for letter in run.dead_letters()] == [b"tall"]
