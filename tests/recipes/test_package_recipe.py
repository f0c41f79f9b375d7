"""The package as others install it: a wheel, in an environment and a home of its own, far from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import project_folder

UV = (sys.executable, "-m", "uv")
EXAMPLE = files_in((project_folder() / "docs" / "persistence.md").read_text(encoding="utf-8"))
STORE = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder))
    subprocess.run([*UV, *build, str(project_folder())], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture
def install(wheel: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes an environment in this test's folder with the wheel and some of its extras, all at the versions pinned."""

    def make(extras: str = "") -> Path:
        venv = tmp_path / "venv"
        subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
        pins = ("--constraint", str(project_folder() / "requirements.txt"))
        wanted = f"springline{extras} @ {wheel.as_uri()}"
        subprocess.run([*UV, "pip", "install", "--quiet", "--python", str(venv), *pins, wanted], check=True)
        return venv

    return make


class Shell:
    """Runs commands in a folder as a person does who has activated an environment and knows of no checkout."""

    def __init__(self, venv: Path, folder: Path, **environment: str) -> None:
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self._folder = folder
        self._environment = {**kept, "HOME": str(folder), "PATH": f"{venv / 'bin'}:/usr/bin:/bin", **environment}

    def __call__(self, command: str, status: int = 0) -> str:
        """What it prints; it is to end with this exit status."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == status, f"$ {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def test_without_extras_datasets_are_made_persisted_lost_and_brought_back(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    """By a Python program, with neither Spark nor Airflow; the home is in the user's, and the checkout is not asked."""
    (tmp_path / "words.py").write_text(EXAMPLE["words.py"], encoding="utf-8")
    cache = tmp_path / "cache"
    shell = Shell(
        install(), tmp_path, SPRINGLINE_RUNNER="words:WordsRunner", SPRINGLINE_CACHE_URI=cache.as_uri(),
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert "ModuleNotFoundError" in shell("python -c 'import pyspark' 2>&1", 1)
    assert "pip install 'springline[streams]'" in shell("python -c 'from springline import Tracker' 2>&1", 1)
    assert "pip install 'springline[streams]'" in shell("springline stream list 2>&1", 1)
    told = shell("SPRINGLINE_STREAM_SAEV=1 springline config list 2>&1")
    assert "SPRINGLINE_STREAM_SAEV is no setting and changes nothing" in told
    shell("python words.py async_store")
    assert f"SPRINGLINE_HOME={tmp_path}/springline/var" in shell("springline config list")
    assert "1.6 MB would be gone for good" in shell("springline risk", 3)
    assert "3 persisted, 0 left" in shell("springline queue persist")
    assert "nothing would be lost" in shell("springline risk")
    shutil.rmtree(cache)
    assert "3 found lost, 3 of them persisted" in shell("springline dataset recover")
    shell("python words.py async_store")  # reads what was persisted, and makes it anew
    assert "words/count@2" in shell("springline dataset list")


def test_a_store_of_ones_own_is_held_to_the_suite_without_the_checkout(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    """With the extra `testing` alone; a step is tested with that of streams, which is named where it is missing."""
    for name in ("remembering.py", "remembering_suite.py"):
        (tmp_path / name).write_text(STORE[name], encoding="utf-8")
    shell = Shell(install("[testing]"), tmp_path, PYTHONPATH=str(tmp_path))
    told = shell("python -m pytest -q -p no:cacheprovider remembering_suite.py")
    assert " passed" in told and "skipped" not in told
    lacking = shell("python -c 'from springline.testing import StageRun' 2>&1", 1)
    assert "pip install 'springline[streams]'" in lacking
