"""Kinds of stream jobs are found among the installed packages; one of others is installed, and runs by its name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest

from springline.persistence import extensions
from springline.persistence.errors import ExtensionError
from springline.persistence.profile import project_folder
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_keys import JobKeys
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.kinds import KINDS, Kind, load_kind
from tests.support.extension import installed

EVEREST = '[everest]\nkind = "heights"\ntopic = "numbers"\nleast = 2\n'
# Each round takes two messages at most; workers have no memory between rounds.
RUN = """
import json, sys
from dataclasses import replace
from pathlib import Path

from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import MemoryLog

folder = Path(sys.argv[1])
job = read_job(folder / "streams.toml", "everest")
specs = [replace(spec, max_messages_per_round=2) for spec in job.stages()]
(stage,) = place_stages(job.name, specs)
log = MemoryLog({"numbers": 1, **topics_of_stages(job)})
for value in ("3", "2", "tall", "5", "5", "8"):
    log.put("numbers", 0, value.encode())
planner = Planner(stage, log, iter(range(0, 1_000, 2)).__next__, dict)
plan = planner.begin()
for _ in range(6):
    plan = planner.after(plan)
    StageWorker(stage, StateFolders(folder / "states"), log).run(plan, planner.broadcast_values_of(plan), 0)
results = [json.loads(line) for message in log.topics[job.results][0] for line in message.value.splitlines()]
dead = [bytes(message.value).decode() for message in log.topics[job.dead_letters][0]]
print(json.dumps([type(job).__module__, [row["record"] for row in results], dead]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the package of the example is installed."""
    return installed("stream_kind", tmp_path_factory.mktemp("extension"))


def run(command: list[str], environment: dict[str, str], **settings: str) -> str:
    """What a Python prints in that environment."""
    completed_process = subprocess.run(
        [sys.executable, *command],
        cwd=project_folder(),
        env={**environment, **settings},
        capture_output=True,
        text=True,
    )
    assert completed_process.returncode == 0, completed_process.stderr
    return completed_process.stdout


def test_a_job_of_an_installed_kind_runs_by_its_name(environment: dict[str, str], tmp_path: Path) -> None:
    """It emits each record once, across rounds and workers without memory, and puts aside what is no number."""
    (tmp_path / "streams.toml").write_text(EVEREST)
    output = json.loads(run(["-c", RUN, str(tmp_path)], environment))
    assert output == ["heights.job", [3.0, 5.0, 8.0], ["tall"]]


def test_the_checkout_knows_nothing_of_that_kind(tmp_path: Path) -> None:
    """Without the package it is unknown, and the error says what would bring it."""
    assert find_spec("heights") is None
    file = tmp_path / "streams.toml"
    file.write_text(EVEREST)
    known_kinds = "installed: join, tracker, windows, wordcount"
    remedy = "install a package with the entry point 'heights' in the group springline.stream_kinds"
    expected = f"job 'everest': kind 'heights': no installed package provides 'heights'; {known_kinds}; {remedy}"
    with pytest.raises(InvalidJobError, match=expected):
        read_jobs(file)


# ---- what can be wrong with a registration

NOT_A_KIND = object()
MISNAMED = Kind("depths", JobKeys, lambda name, keys: None)  # type: ignore[arg-type, return-value]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test say what is installed."""
    extensions._installed_entries.cache_clear()
    yield monkeypatch
    extensions._installed_entries.cache_clear()


def entries(register: pytest.MonkeyPatch, *values: str) -> None:
    """Packages register the kind `heights` so."""
    entry_points = [EntryPoint("heights", value, KINDS.group) for value in values]
    register.setattr(extensions, "entry_points", lambda group: entry_points)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a:KIND", "b:KIND"], r"provided by .*\(a:KIND\) and .*\(b:KIND\); uninstall all but one of them"),
        (["no_such_module:KIND"], "needs the Python package no_such_module: pip install"),
        (["json:KIND"], "json:KIND of the package unknown failed: AttributeError: .*; install another version"),
        ([f"{__name__}:NOT_A_KIND"], "is of type object; expected a springline.stream_kinds.Kind"),
        ([f"{__name__}:MISNAMED"], "is the kind 'depths'; expected a springline.stream_kinds.Kind"),
        ([], "no kind is installed: the package springline is importable but not installed"),
    ],
)  # fmt: skip
def test_an_error_of_a_kind_has_a_remedy(register: pytest.MonkeyPatch, values: list[str], message: str) -> None:
    """Which package, what is wrong, what helps."""
    entries(register, *values)
    with pytest.raises(ExtensionError, match=message):
        load_kind("heights")


def test_a_kind_is_imported_when_a_table_names_it_and_not_before(register: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A broken one does no harm to jobs that do not use it."""
    entry_points = [
        *extensions.entry_points(group=KINDS.group),
        EntryPoint("heights", "no_such_module:KIND", KINDS.group),
    ]
    register.setattr(extensions, "entry_points", lambda group: entry_points)
    file = tmp_path / "streams.toml"
    file.write_text('[words]\nkind = "wordcount"\ntopic = "lines"\n')
    assert list(read_jobs(file)) == ["words"]
    file.write_text("[words]\nkind = 3\n")
    with pytest.raises(InvalidJobError, match="job 'words': kind = 3; expected a text"):
        read_jobs(file)
