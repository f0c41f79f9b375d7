"""DAG runs and the API with a real scheduler, API server and Spark: backfills by form and REST, a retry."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest
from sqlalchemy import select

from springline.airflow.api import PREFIX
from springline.persistence.catalog.schema import dag_run
from springline.persistence.model.dataset import Origin, Phase, Strategy
from springline.services.servers.airflow import USER, password
from springline.spark_jobs.operations import load_operations
from springline.testing.lines import make_dataset as make
from tests.e2e.airflow.conftest import SECOND
from tests.support.airflow.airflow_pages import DAG
from tests.support.streams.declared_streams import JOBS
from tests.support.waiting import until

DAY = SECOND  # whose backfill a page starts


def outputs(day):
    """The paths that a run of this day makes."""
    operations = load_operations(["springline.spark_jobs.etl"]).topological_order()
    return {operation.output.format(ds=day) for operation in operations if operation.name.startswith("etl.")}


def newest(live, day):
    """By path, the newest generation of a day's datasets."""
    return {each.ref.path: each for each in live.platform.catalog.find(prefix=f"etl/{day}/", superseded=False)}


@pytest.fixture
def login(live):
    """A client of the API server, and the header with which Airflow's user gets in."""
    with httpx.Client(base_url=live.address, timeout=120) as client:
        body = client.post("/auth/token", json={"username": USER, "password": password(live.home)}).json()
        yield client, {"Authorization": f"Bearer {body['access_token']}"}


@pytest.fixture(scope="module")
def by_form(live, backfilled):
    """The datasets of a backfill of one day that was started by Airflow's form, after the persister's work."""
    live.api.pause("persister", False)
    until(lambda: not live.platform.claims.depth(), seconds=300, every=0.5, reason=lambda: live.tails("persister"))
    return newest(live, DAY)


@pytest.fixture(scope="module")
def by_rest(live, by_form):
    """Those of a backfill of that day again, by REST, under CacheThrough."""
    live.api.end_backfills(DAG)  # the scheduler notes only now and then that one has ended
    live.api.backfill(DAG, DAY, DAY, {"strategy": "cache_through"}, runs_at_once=1)
    live.finish(DAG, lambda: live.api.runs(DAG, DAY, DAY).values())
    return newest(live, DAY)


@pytest.mark.parametrize("how", ["by_form", "by_rest"])
def test_a_backfill_makes_every_dataset_of_the_day(request, how):
    """Each operation of the registry left one committed generation, made by this DAG run's task."""
    datasets = request.getfixturevalue(how)
    assert set(datasets) == outputs(DAY)
    for path, dataset in datasets.items():
        assert dataset.phase is Phase.COMMITTED
        assert dataset.origin.dag_id == DAG
        assert dataset.origin.task_id == path.rpartition("/")[2]
        assert dataset.origin.run_id.startswith(f"backfill__{DAY}")


def test_the_persister_persists_what_the_runs_left(by_form):
    """Nothing is left in the queue, and what the run did not persist itself went by a transfer of the persister's."""
    assert all(dataset.persisted and dataset.actual_seconds is not None for dataset in by_form.values())


def test_the_strategy_of_the_run_reaches_its_datasets(by_form, by_rest):
    """Under CacheThrough everything is in the under-store when it is committed."""
    assert {dataset.strategy for dataset in by_form.values()} == {Strategy.ASYNC_AND_SYNC}
    assert {dataset.strategy for dataset in by_rest.values()} == {Strategy.CACHE_THROUGH}
    assert all(dataset.persisted and dataset.persisted_at <= dataset.committed_at for dataset in by_rest.values())


def test_a_backfill_of_a_day_that_ran_before_makes_new_generations(by_form, by_rest):
    """The same DAG run, cleared, adopts nothing of what it made before; sources are of the same run."""
    for path in outputs(DAY):
        assert by_rest[path].ref.generation == by_form[path].ref.generation + 1
        assert by_rest[path].origin.run_id != by_form[path].origin.run_id
        for source in by_rest[path].sources:
            assert source == by_rest[source.path].ref


def test_the_page_of_a_run_leads_to_its_datasets(live, by_rest):
    """What a task left names the generation that it made, its state, and the report of the quality gate."""
    (run_id,) = live.api.runs(DAG, DAY, DAY)
    xcom = live.api.xcom(DAG, run_id, "accepted")
    assert xcom["dataset"].startswith(f"etl/{DAY}/accepted@")
    assert xcom["quality_report"]


def test_the_catalog_knows_how_the_runs_ended(live, by_rest):
    """The listener noted beginning and end of each DAG run."""
    query = select(dag_run.c.outcome).where(dag_run.c.run_id.startswith(f"backfill__{DAY}"))
    with live.platform.catalog.read_transaction() as connection:
        assert connection.scalars(query).all() == ["success"] * 2


def test_a_retry_adopts_what_its_failed_try_committed(live):
    """The task ran twice, and made one generation."""
    live.api.pause("trying", False)
    run_id = live.api.trigger("trying", {"ds": str(DAY)})
    live.finish("trying", lambda: [live.api.run_state("trying", run_id)])
    (task,) = live.api.tasks("trying", run_id)
    assert task.attempt == 2
    (dataset,) = live.platform.catalog.find(origin=Origin("trying", run_id))
    assert live.api.xcom("trying", run_id, "parse")["dataset"] == str(dataset.ref)


def test_the_dag_of_the_howto_loads_the_day_that_is_over(live, coffee):
    """With files in a folder of a user's own, and without parameters: unpaused, it runs for yesterday by itself."""
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=1), today]  # it may become midnight
    for day in days:
        coffee.land(day, live.home / "landing")
    for command in coffee.commands:
        environment = {**os.environ, **live.environment}
        subprocess.run([sys.executable, "-m", *command], env=environment, check=True, capture_output=True)
    live.finish("coffee_daily", lambda: live.api.runs("coffee_daily", *days).values())
    datasets = live.platform.catalog.find(prefix=f"coffee/{days[0]}/", superseded=False)
    assert {each.ref.path.rpartition("/")[2]: (each.rows, each.strategy) for each in datasets} == {
        "sales": (6, Strategy.ASYNC_AND_SYNC), "takings": (3, Strategy.ASYNC_AND_SYNC),
    }  # fmt: skip
    assert {each.origin.dag_id for each in datasets} == {"coffee_daily"}


def test_the_persister_gets_a_slot_while_all_others_are_taken(live, login, by_rest, tmp_path):
    """It sleeps, something waits, and every slot of the default pool is taken by tasks that do not end before."""

    def states(dag_id, *runs):
        return [task.state for run_id in runs for task in live.api.tasks(dag_id, run_id)]

    client, admin = login
    live.api.pause("busy", False)
    busy = live.api.trigger("busy", {"until": str(tmp_path / "end")})
    try:
        until(lambda: states("busy", busy).count("running") == 4, seconds=120, reason=lambda: states("busy", busy))
        tails = partial(live.tails, "persister")
        until(lambda: "deferred" in states("persister", *live.api.active_runs("persister")), seconds=120, reason=tails)
        make(live.platform, "urgent", lines=["x"], origin=Origin(DAG, "r1", "urgent"))
        reasons = []

        def is_persisted():
            body = client.get(f"{PREFIX}/api/v1/queue", headers=admin).json()
            reasons.append((body["oldest_seconds"] is None, body["wait_reason"]))
            return live.platform.catalog.find(path="urgent")[0].persisted

        until(is_persisted, seconds=120, reason=lambda: reasons)
        assert states("busy", busy).count("running") == 4
        assert all(reason for none_waits, reason in reasons if not none_waits), reasons
    finally:
        (tmp_path / "end").touch()
    live.finish("busy", lambda: [live.api.run_state("busy", busy)])


def test_the_api_server_serves_the_api_to_users_only(login):
    """Its schema too."""
    client, admin = login
    for path in ("streams", "streams/flights", "openapi.json"):
        body = client.get(f"{PREFIX}/api/v1/{path}")
        assert (body.status_code, body.json()["error"]) == (401, "Unauthorized")
    jobs = client.get(f"{PREFIX}/api/v1/streams", headers=admin).json()["streams"]
    assert {job["job"] for job in jobs} == set(JOBS)
    assert client.get(f"{PREFIX}/api/v1/streams/flights", headers=admin).json()["error"] == "UnknownJobError"
    body = client.get(f"{PREFIX}/api/v1/openapi.json", headers=admin).json()
    assert body["servers"] == [{"url": PREFIX}] and "/api/v1/streams/{job}/ask" in body["paths"]
