"""docs/python.md: the package alone, in an empty environment, far from the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.installed import Shell, make_environment, page, write_files_of

pytestmark = pytest.mark.nightly("installs the wheel into new environments")

PAGE = page("python.md")


@pytest.fixture
def shell(wheel: Path, tmp_path: Path) -> Shell:
    """Commands in an environment that has the package without extras."""
    make_environment(tmp_path / "venv", wheel)
    return Shell(tmp_path / "venv", tmp_path)


def test_without_extras_datasets_are_made_persisted_lost_and_brought_back(shell: Shell) -> None:
    """By the program that the page shows, with neither Spark nor Airflow; its commands print what it shows."""
    assert "ModuleNotFoundError" in shell("python -c 'import pyspark' 2>&1", 1)
    write_files_of(PAGE, shell.folder)
    shell.run_examples(PAGE)


def test_what_an_extra_brings_is_named_where_it_is_missing(shell: Shell) -> None:
    """By imports and by commands; the home is the user's, and the checkout is not asked for settings."""
    assert "pip install 'springline[streams]'" in shell("python -c 'from springline import Tracker' 2>&1", 1)
    assert "pip install 'springline[streams]'" in shell("springline stream list 2>&1", 1)
    assert "pip install 'springline[airflow]'" in shell(
        "python -c 'from springline.airflow import recover_dag' 2>&1", 1
    )
    output = shell("SPRINGLINE_STREAM_SAEV=1 springline config list 2>&1")
    assert "SPRINGLINE_STREAM_SAEV is not a setting and has no effect" in output
    assert f"SPRINGLINE_HOME={shell.folder}/springline/var" in output


def test_a_store_of_ones_own_is_held_to_the_suite_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """With the extra `testing` alone; a step is tested with that of streams, which is named where it is missing."""
    make_environment(tmp_path / "venv", wheel, "[testing]")
    shell = Shell(tmp_path / "venv", tmp_path, PYTHONPATH=str(tmp_path / "store"))
    write_files_of(page("howto.md"), tmp_path)
    output = shell("python -m pytest -q -p no:cacheprovider store/sqlite_suite.py")
    assert " passed" in output and "skipped" not in output
    lacking = shell("python -c 'from springline.testing import StageRun' 2>&1", 1)
    assert "pip install 'springline[streams]'" in lacking
