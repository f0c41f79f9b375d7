"""docs/howto.md: its packages are those that tests install and use, its tests pass, its step does what it says.

Its commands are run with all documents'.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.console import files_in
from springline.persistence.model.dataset import OperationResult, Strategy
from springline.persistence.profile import import_root, project_folder
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.testing import StageRun, platform_in
from tests.support.datasets.tables import catalog_variables, numbers, write_parquet
from tests.support.decoding.windows_job import Job
from tests.support.extension import FOLDER

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", ["store", "policy", "stream_kind", "format"])
def test_the_packages_that_are_shown_are_those_that_are_installed(package: str) -> None:
    """Each file but their README, as it lies in tests/extensions, where tests install and use them."""
    shown = {name: content for name, content in FILES.items() if name.startswith(f"{package}/")}
    paths = (path for path in (FOLDER / package).rglob("*") if path.suffix in (".py", ".toml"))
    assert shown == {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_a_new_store_is_one_file_and_its_entry_point() -> None:
    """Beside the test that it passes."""
    names = {name for name in FILES if name.startswith("store/")}
    assert names == {"store/springline_sqlite.py", "store/pyproject.toml", "store/sqlite_suite.py"}
    assert FILES["store/pyproject.toml"].count("springline_sqlite.") == 1


def test_datasets_are_read_by_tools_that_know_nothing_of_springline(tmp_path: Path) -> None:
    """In a process of its own, as the page shows it: two versions, and what each of the tools counts."""
    with platform_in(tmp_path, cache_uri=(tmp_path / "cache").as_uri()) as platform:
        for rows in (10, 30):
            with platform.store.write("etl/2013-01-05/clean", strategy=Strategy.CACHE_THROUGH) as writing:
                folder = Path(writing.uri.removeprefix("file://"))
                folder.mkdir(parents=True)
                for number in range(2):
                    pq.write_table(pa.table({"n": range(rows // 2)}), folder / f"part-{number}.parquet")
                writing.mark_complete(OperationResult(rows, "", 0.0))
    environment = {**os.environ, "PYTHONPATH": str(import_root()), "SPRINGLINE_HOME": str(tmp_path / "home")}
    shutil.rmtree(tmp_path / "cache")
    completed_process = subprocess.run(
        [sys.executable, "-c", FILES["read_dataset.py"]], cwd=tmp_path, capture_output=True, text=True,
        env={**environment, "SPRINGLINE_CACHE_URI": (tmp_path / "cache").as_uri(), "SPRINGLINE_PROFILE": ""},
    )  # fmt: skip
    assert completed_process.stdout.splitlines() == [
        "pandas 30 rows; version 1: 10 rows", "Polars 30 rows", "DuckDB 30 rows", "pyarrow 30 rows",
        "version 2 of 30 rows",
    ], completed_process.stderr  # fmt: skip


def test_datasets_go_into_the_tables_that_the_profile_names(tmp_path: Path) -> None:
    """By the commands that are shown, in another folder; then other engines count them as the page shows it."""
    with platform_in(tmp_path, cache_uri=(tmp_path / "cache").as_uri()) as platform:
        for day in ("2013-01-05", "2013-01-06"):
            for name in ("clean", "delays"):
                write_parquet(platform, f"etl/{day}/{name}", numbers(1, 2, 3), strategy=Strategy.ASYNC_STORE)
    profile = tmp_path / "lake.env"
    profile.write_text(FILES["lake.env"].replace("/srv/lake", f"{tmp_path}/lake"), encoding="utf-8")
    environment = {
        **os.environ, "PYTHONPATH": str(import_root()), "SPRINGLINE_HOME": str(tmp_path / "home"),
        "SPRINGLINE_PROFILE": str(profile), "SPRINGLINE_CACHE_URI": (tmp_path / "cache").as_uri(),
        **catalog_variables(tmp_path),
    }  # fmt: skip

    def run(*arguments: str) -> str:
        completed_process = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, env=environment
        )
        assert completed_process.returncode == 0, completed_process.stderr + completed_process.stdout
        return completed_process.stdout

    assert json.loads(run("-m", "springline", "queue", "persist", "--json"))["in_tables"] == 4
    listed = json.loads(run("-m", "springline", "table", "list", "--json"))
    assert [(row["written"], row["pending"], row["error"]) for row in listed] == [(2, 0, ""), (2, 0, ""), (0, 0, "")]
    script = FILES["read_table.py"].replace("/srv/lake", f"{tmp_path}/lake")
    assert run("-c", script).splitlines() == ["Delta 6 rows of ['2013-01-05', '2013-01-06']", "Iceberg 6 rows"]


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


def test_changes_of_a_database_are_counted_as_the_recipe_says(tmp_path: Path) -> None:
    """An order that was there, two that are made, an update, a deletion."""
    (tmp_path / "changes.toml").write_text(FILES["changes.toml"], encoding="utf-8")
    declared = read_jobs(tmp_path / "changes.toml")["orders"]
    assert isinstance(declared, WindowsJob)
    queries = QueryRegistry.of([replace(declared.stream, max_future_skew=None)])
    for name, sql in declared.queries.items():
        queries = queries.register(name, sql)
    job = Job(queries, stream_name="orders")

    def change(op: str, before: object, after: object) -> bytes:
        envelope = {"op": op, "before": before, "after": after, "source": {"db": "shop"}, "transaction": None}
        return json.dumps({**envelope, "ts_ms": 1_788_000_001_000}).encode()

    job.round([
        change("r", None, {"id": 1, "region": "north", "amount": 10}),
        change("c", None, {"id": 2, "region": "south", "amount": 5}),
        change("c", None, {"id": 3, "region": "north", "amount": 1}),
        change("u", {"id": 1, "region": "north", "amount": 10}, {"id": 1, "region": "north", "amount": 12}),
        change("d", {"id": 2, "region": "south", "amount": 5}, None),
    ])  # fmt: skip
    job.finish()
    assert not job.dead
    assert sorted((row["region"], row["orders"]) for row in job.rows("new")) == [("north", 2), ("south", 1)]
    assert [row["change"] for row in job.rows("turnover")] == [10 + 5 + 1 + 2 - 5]
