"""Faults in the middle of a real DAG run: it ends right, with the results of a run without a fault."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest

from springline.persistence.model.dataset import Dataset
from springline.persistence.platform import open_platform
from springline.persistence.private_files import default_cache_folder
from springline.persistence.settings import Settings
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import load_operations
from springline.spark_jobs.runner import SparkRunner
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from tests.faults.dag_runs.conftest import DAY
from tests.support.waiting import until

pytestmark = pytest.mark.nightly("a DAG run on a real Airflow in each test")

TASKS = ("load_flights", "load_weather", "parse", "clean", "enrich")  # of the DAG `loading`, in their order


def run(
    live, strategy: str, faults: Mapping[str, Callable[[str], None]], patience: float = 400
) -> tuple[str, dict[str, Dataset]]:
    """A DAG run of the day, with each fault once the dataset of its name is committed; its id, and its datasets."""
    before = {each.ref for each in live.platform.catalog.find(prefix=f"etl/{DAY}/")}
    run_id = live.api.trigger("loading", {"ds": str(DAY), "strategy": strategy})

    def is_committed(name: str) -> bool:
        datasets = live.platform.catalog.find(path=f"etl/{DAY}/{name}")
        return any(each.committed_at and each.ref not in before for each in datasets)

    for name, fault in faults.items():
        until(lambda name=name: is_committed(name), seconds=180, every=0.1, reason=lambda: live.tails("loading"))
        fault(run_id)
    live.finish("loading", lambda: [live.api.run_state("loading", run_id)], patience)
    new_datasets = live.platform.catalog.find(prefix=f"etl/{DAY}/", superseded=False)
    assert not before & {each.ref for each in new_datasets}
    return run_id, {each.ref.path.rpartition("/")[2]: each for each in new_datasets}


def digests_of(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The logical digests by name."""
    return {name: each.digest for name, each in datasets.items()}


@pytest.fixture(scope="module")
def without_fault(live, tmp_path_factory) -> dict[str, str]:
    """The digests of the same operations where nothing goes wrong, in a home of their own and without Airflow."""
    jobs = JobSettings(spark_remote=live.servers["spark-connect"].address, landing_uri=str(live.home / "landing"))
    folder = tmp_path_factory.mktemp("without-fault")
    settings = Settings(home=folder / "home", cache_uri=f"file://{folder}/cache")
    with closing(SparkSessions(jobs)) as sessions:
        runner = SparkRunner(jobs, load_operations(["springline.spark_jobs.etl"]), sessions)
        with closing(open_platform(settings, runner=runner)) as platform:
            return digests_of({name: materialize(platform, f"etl.{name}", {"ds": str(DAY)}) for name in TASKS})


def test_a_run_ends_right_when_spark_connect_is_killed_and_then_the_whole_cache_is_deleted(live, without_fault):
    """Somebody starts Spark again, the tasks find it; what was only in the cache is recomputed from what is persisted.

    Of a run under Async&Sync, that is what cannot be recomputed.
    """

    def kill_spark(run_id: str) -> None:
        for pid in live.supervisor.status("spark-connect").processes.values():
            os.killpg(pid, signal.SIGKILL)
        live.supervisor.down("spark-connect", 10)  # waits until all of it is gone
        live.up("spark-connect")

    def wipe_cache(run_id: str) -> None:
        for entry in default_cache_folder(live.home).iterdir():
            shutil.rmtree(entry, ignore_errors=True)

    _, datasets = run(live, "async_and_sync", {"parse": kill_spark, "clean": wipe_cache})
    assert digests_of(datasets) == without_fault
    events = [
        moment.event for name in ("parse", "clean") for moment in live.platform.catalog.history(datasets[name].ref)
    ]
    assert "lost" in events and "restored" in events


def test_a_run_outlasts_an_under_store_that_refuses_writes_and_a_scheduler_that_is_killed_with_its_tasks(
    live, without_fault
):
    """Under CacheThrough every write waits until the under-store takes it again.

    The next scheduler notices that the tasks are dead, and restarts them, long before Airflow's five minutes.
    """
    under, away = live.home / "under", live.home / "under.away"
    killed_attempts: list[int] = []

    def attempts_of_enrich(run_id: str, *states: str) -> list[int]:
        tasks = live.api.tasks("loading", run_id)
        return [task.attempt for task in tasks if task.task_id == "enrich" and (not states or task.state in states)]

    def refuse_writes(run_id: str) -> None:
        began = live.platform.catalog.now()

        def is_refused() -> bool:
            changes = live.platform.catalog.history(since=began)
            has_failed = any(task.attempt > 1 for task in live.api.tasks("loading", run_id))
            return has_failed or any(change.event == "released" for change in changes)

        under.rename(away)
        under.write_text("not a folder")
        try:
            until(is_refused, seconds=240, every=0.2, reason=lambda: live.tails("loading"))
        finally:
            under.unlink()
            away.rename(under)

    def kill_scheduler(run_id: str) -> None:
        running = until(lambda: attempts_of_enrich(run_id, "running"), seconds=240, every=0.1)
        killed_attempts.extend(running)
        live.supervisor.kill("airflow", "scheduler")
        live.up("airflow")

    run_id, datasets = run(live, "cache_through", {"parse": refuse_writes, "clean": kill_scheduler}, patience=240)
    assert digests_of(datasets) == without_fault
    assert all(each.persisted for each in datasets.values())
    assert attempts_of_enrich(run_id) > killed_attempts
