"""docs/howto.md: its store does what it says, its kind of stream is a package that is tested.

Its commands are run with those of all documents.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import project_folder

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Python with the files that the page shows."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_store_that_is_shown_passes_the_suite(shown: Path) -> None:
    """Every fact of the conformance suite, in a process of its own."""
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(shown / "remembering_suite.py")]
    path = f"{shown}:{project_folder()}"
    done = subprocess.run(suite, cwd=shown, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert " failed" not in done.stdout and " passed" in done.stdout


def test_the_kind_of_stream_that_is_shown_is_the_package_that_a_test_installs() -> None:
    """To the letter, and all of it but its README."""
    package = project_folder() / "tests" / "extensions" / "stream_kind"
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".toml")]
    told = {name: content for name, content in FILES.items() if name.startswith("stream_kind/")}
    assert told == {f"stream_kind/{path.relative_to(package)}": path.read_text(encoding="utf-8") for path in files}
