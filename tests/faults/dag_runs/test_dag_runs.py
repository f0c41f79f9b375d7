"""Faults in the middle of a real DAG run: it ends right, with the results of a run without a fault."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from datetime import date

import pytest

from springline.persistence.model.dataset import Dataset
from springline.persistence.platform import default_cache_folder
from tests.support.datasets.digests import repeatable_digests
from tests.support.waiting import until

pytestmark = pytest.mark.nightly("a DAG run of the whole workflow in each test")

DAY = date(2013, 1, 5)


def run(live, strategy: str, when: str, fault: Callable[[], None], patience: float = 400) -> dict[str, Dataset]:
    """A DAG run of the day, with a fault once its dataset `when` is committed; its datasets by name."""
    before = {each.ref for each in live.platform.catalog.find(prefix=f"etl/{DAY}/")}
    live.api.end_backfills("etl_lineage")
    live.api.backfill("etl_lineage", DAY, DAY, {"strategy": strategy}, runs_at_once=1)

    def is_committed() -> bool:
        datasets = live.platform.catalog.find(path=f"etl/{DAY}/{when}")
        return any(each.committed_at and each.ref not in before for each in datasets)

    until(is_committed, seconds=180, every=0.1, reason=lambda: live.tails("etl_lineage"))
    fault()
    live.finish("etl_lineage", lambda: live.api.runs("etl_lineage", DAY, DAY).values(), patience)
    new_datasets = live.platform.catalog.find(prefix=f"etl/{DAY}/", superseded=False)
    assert not before & {each.ref for each in new_datasets}
    return {each.ref.path.rpartition("/")[2]: each for each in new_datasets}


@pytest.fixture(scope="module")
def without_fault(live) -> dict[str, str]:
    """The digests of a run in which nothing goes wrong."""
    live.api.pause("etl_lineage", False)
    live.api.pause("persister", False)
    return repeatable_digests(run(live, "async_and_sync", "load_flights", lambda: None))


def test_a_run_ends_right_when_the_spark_connect_server_is_killed(live, without_fault):
    """kill -9 of the server and all that it started; somebody starts it again, the tasks find it."""

    def kill() -> None:
        for pid in live.supervisor.status("spark-connect").processes.values():
            os.killpg(pid, signal.SIGKILL)
        live.supervisor.down("spark-connect", 10)  # waits until all of it is gone
        live.up("spark-connect")

    assert repeatable_digests(run(live, "async_and_sync", "parse", kill)) == without_fault


def test_a_run_ends_right_when_the_whole_cache_is_deleted(live, without_fault):
    """What was only in the cache is recomputed, from what Async&Sync had persisted."""

    def wipe() -> None:
        for entry in default_cache_folder(live.home).iterdir():
            shutil.rmtree(entry, ignore_errors=True)

    datasets = run(live, "async_and_sync", "clean", wipe)
    assert repeatable_digests(datasets) == without_fault
    events = [
        moment.event for name in ("parse", "clean") for moment in live.platform.catalog.history(datasets[name].ref)
    ]
    assert "lost" in events and "restored" in events


def test_a_run_waits_for_an_under_store_that_refuses_writes(live, without_fault):
    """Under CacheThrough every write waits until the under-store takes it again."""
    under, away = live.home / "under", live.home / "under.away"

    def refuse() -> None:
        under.rename(away)
        under.write_text("not a folder")
        time.sleep(20)
        under.unlink()
        away.rename(under)

    datasets = run(live, "cache_through", "parse", refuse)
    assert repeatable_digests(datasets) == without_fault
    assert all(each.persisted for each in datasets.values())


def test_a_run_goes_on_when_the_scheduler_is_killed_with_its_tasks(live, without_fault):
    """The next scheduler notices that they are dead, and restarts them, long before Airflow's five minutes."""
    states: list[str] = []

    def kill() -> None:
        def is_at_work() -> bool:
            runs = live.api.runs("etl_lineage", DAY, DAY)
            states[:] = [task.state for run_id in runs for task in live.api.tasks("etl_lineage", run_id)]
            return "running" in states

        until(is_at_work, seconds=60, every=0.1, reason=lambda: str(states))
        live.supervisor.kill("airflow", "scheduler")
        live.up("airflow")

    assert repeatable_digests(run(live, "async_and_sync", "parse", kill, patience=240)) == without_fault
    (run_id,) = live.api.runs("etl_lineage", DAY, DAY)
    assert max(task.attempt for task in live.api.tasks("etl_lineage", run_id)) > 1
