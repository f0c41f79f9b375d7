"""The DAG files: wiring that follows from the registry, and a plugin folder that hides nothing from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from springline.airflow.listener import RunListener
from springline.airflow.operators.dataset import DatasetOperator
from springline.airflow.pools import POOLS
from springline.airflow.task_factory import dataset_tasks
from springline.persistence.model.dataset import Strategy
from springline.services.servers.airflow import RESERVED_SLOTS
from springline.spark_jobs.errors import UnknownOperationError
from springline.spark_jobs.operations import OperationRegistry, load_operations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dags():
    """The DAGs of the checkout."""
    bag = DagBag(ROOT / "dags")
    assert bag.import_errors == {}
    return bag.dags


def test_every_dag_file_is_imported(dags):
    """Eight DAGs, four of them for the jobs of streams.toml; no errors.

    Airflow shows the file that calls for a DAG of the platform as its code, and looks for it there.
    """
    assert sorted(dags) == [
        "etl_lineage", "maintenance", "persister", "recover", "stream_flights", "stream_range_flights",
        "stream_shipping", "stream_words",
    ]  # fmt: skip
    files = {"persister": "persister", "stream_words": "streams", "stream_range_flights": "stream_ranges"}
    for dag_id, name in files.items():
        assert dags[dag_id].fileloc == str(ROOT / "dags" / f"{name}.py")


def test_tasks_that_make_datasets_outlast_a_server_that_starts_again(dags):
    """Their tries, at the shortest delays, reach over two minutes; a fixed delay of seconds would not."""
    for dag_id in ("etl_lineage", "recover", "stream_range_flights"):
        for task in dags[dag_id].tasks:
            first, most = task.retry_delay.total_seconds(), task.max_retry_delay.total_seconds()
            delays = [min(first * task.retry_exponential_backoff**number, most) for number in range(task.retries)]
            assert sum(delays) >= 120


def test_tasks_and_edges_are_those_of_the_registry(dags):
    """The picture in Airflow and the lineage in the catalog cannot disagree.

    Inlets and outlets are an operation's path templates; the documentation of a task is the operation's.
    """
    registry = load_operations(["springline.spark_jobs.etl"])
    operations = [each for each in registry.topological_order() if each.name.startswith("etl.")]
    tasks = {task.task_id: task for task in dags["etl_lineage"].tasks}
    assert set(tasks) == {each.name.removeprefix("etl.") for each in operations} and len(tasks) >= 10
    for operation in operations:
        task = tasks[operation.name.removeprefix("etl.")]
        assert isinstance(task, DatasetOperator)
        assert task.upstream_task_ids == {maker.removeprefix("etl.") for maker in registry.edges[operation.name]}
        assert [asset.name for asset in task.inlets] == list(operation.sources.values())
        assert [asset.name for asset in task.outlets] == [operation.output]
        assert operation.doc in task.doc_md
        assert set(task.parameters) == set(operation.parameters)


def test_a_day_is_run_on_its_date_and_not_caught_up(dags):
    """Unpausing starts nothing by itself: the days are in the past, and run by backfill; so are ranges of a stream."""
    dag = dags["etl_lineage"]
    assert (dag.start_date.date().isoformat(), dag.timetable.last.isoformat()) == ("2013-01-01", "2013-12-31")
    assert not dag.catchup
    dag = dags["stream_range_flights"]
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable" and not dag.catchup
    assert set(dag.params) == {"queries", "begin", "end", "strategy"}


def test_a_run_that_is_triggered_today_has_its_tasks(dags):
    """Airflow's form offers today as the logical date; the day of the data is asked for beside it, and may be empty.

    It offers the four strategies too, and refuses others.
    """
    dag = dags["etl_lineage"]
    assert dag.end_date is None and all(task.end_date is None for task in dag.tasks)
    strategy, day = dag.params.get_param("strategy"), dag.params.get_param("ds")
    assert (strategy.value, strategy.schema["enum"]) == ("async_and_sync", [each.value for each in Strategy])
    assert day.value is None and day.resolve("2013-01-05") == "2013-01-05" and day.resolve(None) is None
    with pytest.raises(ParamValidationError):
        day.resolve("yesterday")


def test_what_protects_datasets_runs_from_the_start(dags):
    """Nobody has to unpause it, nor a run of `recover` that somebody asks for; the persister runs one run for ever."""
    assert (dags["persister"].schedule, dags["persister"].max_active_runs) == ("@continuous", 1)
    assert {dag_id for dag_id, dag in dags.items() if dag.is_paused_upon_creation is False} == {
        "maintenance", "persister", "recover",
    }  # fmt: skip


def test_what_looks_after_datasets_and_streams_waits_behind_no_task_that_makes_datasets(dags):
    """Its tasks have pools of their own, and more weight than any other, whatever comes after them."""
    own = {task for dag in dags.values() for task in dag.tasks if task.pool != "default_pool"}
    assert {task.dag_id for task in own} == dags.keys() - {"etl_lineage", "stream_range_flights"}
    assert {task.pool for task in own} == {pool.name for pool in POOLS}
    assert sum(pool.slots for pool in POOLS) == RESERVED_SLOTS, "slots that the executor has beside the default pool's"
    others = [task for dag in dags.values() for task in dag.tasks if task not in own]
    assert min(task.priority_weight for task in own) > max(1000 * len(others) * task.priority_weight for task in others)
    assert {str(task.weight_rule) for task in own} == {str(dags["persister"].tasks[0].weight_rule)}
    evict, retire = (dags["maintenance"].get_task(name) for name in ("evict", "retire"))
    assert evict.priority_weight == retire.priority_weight


def test_a_dataset_is_brought_back_only_when_somebody_asks(dags):
    """Airflow's form asks for paths, and refuses an empty list; after the recovery by maintenance comes nothing."""
    assert dags["maintenance"].get_task("recover").downstream_task_ids == set(), "its failure is that of its run"
    dag = dags["recover"]
    assert (dag.schedule, dag.is_paused_upon_creation) == (None, False)
    datasets = dag.params.get_param("datasets")
    assert datasets.resolve(["etl/a", "etl/b@3"]) == ["etl/a", "etl/b@3"]
    for wrong in ([], [""], "etl/a", [3]):
        with pytest.raises(ParamValidationError):
            datasets.resolve(wrong)


def test_airflow_finds_the_plugin_by_its_entry_point():
    """No folder of plugins is named."""
    from airflow import plugins_manager

    plugins, errors = plugins_manager._get_plugins()
    own_plugins = [plugin for plugin in plugins if plugin.name == "springline"]
    assert len(own_plugins) == 1 and not errors
    assert [type(listener) for listener in own_plugins[0].listeners] == [RunListener]
    assert "springline.airflow.plugin:SpringlinePlugin" in str(own_plugins[0].source)


def test_the_example_is_there_only_where_it_is_asked_for(monkeypatch):
    """A user's platform has other operations: then no DAG of this one stands in their Airflow."""
    monkeypatch.setenv("SPRINGLINE_OPERATIONS", "json")
    bag = DagBag(ROOT / "dags" / "etl_lineage.py")
    assert (bag.dags, bag.import_errors) == ({}, {})


def test_a_dag_of_unknown_operations_says_where_to_name_them():
    """An empty DAG would succeed at once and have done nothing."""
    with pytest.raises(UnknownOperationError, match=r"has the prefix 'shop\.'.*SPRINGLINE_OPERATIONS"):
        dataset_tasks(OperationRegistry(), prefix="shop.")


def test_names_for_dag_files_cost_nothing_until_they_are_asked_for():
    """Every process of Airflow imports the package for its plugin; a name that there is not is an error."""
    code = "print('airflow.sdk' in sys.modules, 'pyspark' in sys.modules, hasattr(springline.airflow, 'no_such_dag'))"
    code = f"import sys, springline.airflow; {code}"
    completed_process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed_process.stdout == "False False False\n"
