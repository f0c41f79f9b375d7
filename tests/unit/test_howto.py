"""docs/howto.md: its step does what it says, its packages are those that are tested; its commands are run elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.console import files_in
from springline.persistence.profile import project_folder
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.worker.unit import Units
from tests.support.extension import FOLDER
from tests.support.memory_log import MemoryLog

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Python with the files that the page shows."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("package", ["store", "policy"])
def test_the_packages_that_are_shown_are_those_that_are_installed(package: str) -> None:
    """Each file but their README, as it lies in tests/extensions, where tests install and use them."""
    shown = {name: content for name, content in FILES.items() if name.startswith(f"{package}/")}
    paths = (path for path in (FOLDER / package).rglob("*") if path.is_file() and path.name != "README.md")
    assert shown == {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_the_step_that_is_shown_runs_in_a_stage(shown: Path, tmp_path: Path) -> None:
    """It tells each record once, across rounds and a worker without memory, and puts aside what is no number."""
    stage = Stage(
        "heights", "watch", "records", "numbers", str(tmp_path / "state"), arguments={"least": 0.0},
        modules=("records",), results="heights.results", dead="heights.dead", admitted=2, pace=0.0,
    )  # fmt: skip
    log = MemoryLog({"numbers": 1, "heights.results": 1, "heights.dead": 1, stage.rounds: 1})
    for value in ("3", "2", "tall", "5", "5", "8"):
        log.put("numbers", 0, value.encode())
    clock = iter(range(0, 1_000, 2))
    planner = Planner(stage, log, lambda: float(next(clock)), dict)
    plan: Plan | None = planner.begin()
    for _ in range(6):
        assert plan is not None
        plan = planner.after(plan)
        assert plan is not None
        Units(stage, log).run(plan, planner.contents_of(plan), 0)
    told = [json.loads(line) for message in log.topics["heights.results"][0] for line in message.value.splitlines()]
    assert [row["record"] for row in told] == [3.0, 5.0, 8.0]
    assert [bytes(message.value) for message in log.topics["heights.dead"][0]] == [b"tall"]
