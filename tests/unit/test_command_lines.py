"""What all command lines of the project have in common."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).resolve().parents[2]
APPS = re.compile(r"^(\w+) = typer\.Typer\(", re.MULTILINE)


def found_apps() -> list[tuple[str, str]]:
    """The module and the name of every Typer of the packages."""
    folders = {
        **{name: f"springline.{name}" for name in ("persistence", "spark_jobs", "services")},
        "plugins/springline_airflow": "springline.airflow", "benchmarks": "benchmarks", "docs": "docs",
    }  # fmt: skip
    return [
        (".".join([package, *file.relative_to(ROOT / folder).with_suffix("").parts]), name)
        for folder, package in folders.items()
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in APPS.findall(file.read_text())
    ]


def test_the_command_lines_are_found() -> None:
    """Those of datasets, of jobs and of servers at least."""
    modules = {module for module, _ in found_apps()}
    assert {
        "springline.persistence.cli",
        "springline.spark_jobs.cli",
        "springline.spark_jobs.streaming.cli",
        "springline.services.__main__",
    } <= modules


@pytest.mark.parametrize(("module", "name"), found_apps())
def test_a_command_line_does_not_write_into_files_of_the_shell(module: str, name: str) -> None:
    """Typer's `--install-completion` would add a line to ~/.bashrc that no shell can read: `python -m …` is no name."""
    app: typer.Typer = getattr(import_module(module), name)
    options = {option for each in typer.main.get_command(app).params for option in each.opts}
    assert not {"--install-completion", "--show-completion"} & options
