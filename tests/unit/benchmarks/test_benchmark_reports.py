"""Reports of benchmarks: which goals are met, over all of them, and how a course levels off."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from benchmarks import everything
from benchmarks.cluster.soaking.resource_samples import Sample, growers, growth
from benchmarks.report import Report, show
from docs.goals import goals_table


def write(folder: Path, name: str, *measured: tuple[str, float, bool]) -> None:
    """A result with goals."""
    goals = [{"goal": goal, "measured": value, "target": "at most 2", "met": met} for goal, value, met in measured]
    (folder / f"{name}.json").write_text(json.dumps({"when": "2026-03-02T10:00:00", "goals": goals}))


def test_the_documents_list_each_goal_that_is_missed(tmp_path: Path) -> None:
    """And of how many; with a link to where it is explained."""
    write(tmp_path, "join", ("seconds", 3.5, False), ("rows", 1, True))
    write(tmp_path, "catalog")
    table = goals_table("all", tmp_path)
    assert "| [join](benchmarks.md) | 2026-03-02 | 1 of 2 | seconds: 3.5 (at most 2) |" in table
    assert "| [catalog](benchmarks.md) | 2026-03-02 | none set |  |" in table


def test_all_benchmarks_run_one_after_another_and_what_did_not_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result of an earlier time does not stand in for one that is missing."""
    write(tmp_path, "second", ("old", 1, True))

    def run(command: list[str], **_: object) -> SimpleNamespace:
        if command[3] == "first":
            write(tmp_path, "first", ("seconds", 3.5, False), ("rows", 1, True))
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(everything.subprocess, "run", run)
    console = Console(width=160, record=True, file=io.StringIO())
    assert not everything.run_all(["first", "second"], tmp_path, console)
    output = console.export_text()
    assert "seconds: 3.5 (at most 2)" in output and "did not come to its end" in output


def test_what_levels_off_is_distinguished_from_what_grows() -> None:
    """The first quarter, in which all starts, does not count."""
    assert growth([1, 2, 10, 10, 10, 10, 10, 10]) == 0.0
    assert growth([0, 0, 10, 10, 15, 15, 20, 20]) == pytest.approx(1.0)
    assert growth([1, 2]) == 0.0


def test_what_grew_most_is_named() -> None:
    """By who started it, the most first; what shrank comes last."""
    courses = {
        "kafka (broker)": [1, 1, 5, 5, 5, 5, 9, 9],
        "stream words": [2] * 8,
        "airflow (scheduler)": [9] * 4 + [8] * 4,
    }
    samples = [Sample(at, {name: course[at] * 1_000_000 for name, course in courses.items()}, 0, 0) for at in range(8)]
    assert growers(samples, 2) == "kafka (broker) +4 MB, stream words +0 MB"
    assert growers(samples).endswith("airflow (scheduler) -1 MB")


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("count", [3, 22, 60])
def test_no_cell_of_a_table_is_broken_at_any_width(width: int, count: int) -> None:
    """One with more columns than fit has a line for each of them instead."""
    rows = [{f"measure {number}": number * 1_111.5 * row for number in range(count)} for row in range(1, 9)]
    console = Console(width=width, record=True, file=io.StringIO())
    show(Report("wide", "quick", rows, []), console)
    text = console.export_text()
    assert "…" not in text and all(f"{number * 1_111.5 * 8:,.0f}" in text for number in range(1, count))
