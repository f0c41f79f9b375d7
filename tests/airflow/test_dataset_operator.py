"""The dataset operator: what it hands to the operation, what it reports of the result, which errors end the task."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from airflow.sdk.exceptions import AirflowFailException
from airflow.timetables import trigger as core
from airflow.utils.state import TaskInstanceState
from jsonschema import Draft202012Validator, FormatChecker
from pendulum import datetime

from springline.airflow.openlineage import open_task_lineage
from springline.airflow.operators.dataset import DatasetOperator
from springline.airflow.runs import names_of, origin_of
from springline.persistence import monitoring
from springline.persistence.errors import IrrecoverableError, StorageUnavailableError
from springline.persistence.model.dataset import Call, Dataset, Origin, Phase, Ref, Strategy
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.openlineage_events import SCHEMA, LineageEventBuilder
from springline.spark_jobs.errors import FaultyOperationError, QualityError
from springline.spark_jobs.operations import OperationRegistry

FACET_FILE = f"{SCHEMA.split(':', 3)[3].replace(':', '-')}.json"
DATASET = Dataset(
    Ref("etl/2013-01-05/clean", 3), bytes=42, rows=7, digest="d1", call=Call("etl.clean", "v1", {"ds": "2013-01-05"}),
    sources=(Ref("etl/2013-01-05/parse", 2),), report={"broken": 0},
)  # fmt: skip


def make_operator(materialize=None, **changes):
    """The task of an operation, its templates rendered; it makes `DATASET` if nothing else is given."""
    materialize = materialize or Mock(return_value=DATASET)
    arguments = {"parameters": {"ds": "2013-01-05"}, "strategy": "async_store", **changes}
    return DatasetOperator(
        task_id="clean", operation="etl.clean", sources=("etl/{ds}/parse",), output="etl/{ds}/clean",
        open_platform=lambda actor: nullcontext("the platform"), materialize=materialize, **arguments,
    )  # fmt: skip


def context(clear_number=0):
    """What Airflow hands to a task."""
    run = SimpleNamespace(dag_id="etl_lineage", run_id="manual__1", clear_number=clear_number)

    class Events(dict):
        def __missing__(self, asset):
            return self.setdefault(asset.name, SimpleNamespace(extra=None))

    return {"dag_run": run, "ti": Mock(), "outlet_events": Events()}


def test_one_task_is_one_operation_for_one_day_under_the_strategy_of_the_run():
    """What the task returns, and the asset's event, name the generation, its sources and its report."""
    materialize, run_context = Mock(return_value=DATASET), context()
    xcoms = make_operator(materialize).execute(run_context)
    origin = Origin("etl_lineage", "manual__1", "clean")
    asked = ("the platform", "etl.clean", {"ds": "2013-01-05"})
    materialize.assert_called_once_with(*asked, origin=origin, strategy=Strategy.ASYNC_STORE)
    assert xcoms["dataset"] == "etl/2013-01-05/clean@3"
    assert xcoms["sources"] == ["etl/2013-01-05/parse@2"]
    assert xcoms["quality_report"] == {"broken": 0}
    assert run_context["outlet_events"]["etl/{ds}/clean"].extra == xcoms


MIDNIGHT = datetime(2013, 1, 6)  # the day that starts then is the 6th


def rendered(*, params=None, begins=MIDNIGHT, **dag):
    """The task of an operation with options, its templates rendered as Airflow does for a DAG with these parameters."""
    registry = OperationRegistry()

    @registry.operation("one", output="one/{ds}/{site}", options={"quality": "stop"})
    def one(context):
        """Makes it."""

    materialize = Mock(return_value=DATASET)
    with DAG("one", **{"schedule": None, **dag}):
        task = DatasetOperator.of(
            registry.get("one"), task_id="one", open_platform=lambda actor: nullcontext(), materialize=materialize
        )
    interval = {} if begins is None else {"data_interval_start": begins, "ds": "2013-01-06"}
    task.render_template_fields({"params": params or {}, "task": task, **interval})
    return task, materialize


def test_an_operator_needs_no_parameters_of_its_dag():
    """The day is that on which the data interval begins, the strategy Async&Sync; options are left to the settings.

    Parameters of the DAG go before, unless they are empty.
    """
    task, materialize = rendered(params={"site": "jfk"}, begins=MIDNIGHT - timedelta(days=1))
    task.execute(context())
    _, name, parameters = materialize.call_args.args
    assert (name, parameters) == ("one", {"ds": "2013-01-05", "site": "jfk"})
    assert materialize.call_args.kwargs["strategy"] is Strategy.ASYNC_AND_SYNC
    dag_params = {"ds": "2012-12-31", "site": "jfk", "quality": "pass", "strategy": "cache_only"}
    task, materialize = rendered(params=dag_params)
    task.execute(context())
    _, _, parameters = materialize.call_args.args
    assert {**parameters, "strategy": materialize.call_args.kwargs["strategy"]} == dag_params
    empty = rendered(params={"ds": None, "quality": "", "strategy": None})[0]
    assert (empty.parameters["ds"], empty.strategy) == ("2013-01-06", "async_and_sync")


def test_a_table_that_is_read_is_an_inlet_and_its_version_a_parameter_of_the_run():
    """Without the parameter, the version is left to the operation."""
    registry = OperationRegistry()
    tables = {"orders": "delta:s3://lake/orders", "prices": "iceberg:lake.shop.prices"}

    @registry.operation("read", output="shop/{ds}/read", tables=tables)
    def read(context, orders, prices):
        """Reads it."""

    for params, asked in ({}, {}), ({"orders": "17"}, {"orders": "17"}):
        materialize = Mock(return_value=DATASET)
        with DAG("read", schedule=None):
            task = DatasetOperator.of(
                registry.get("read"), task_id="read", open_platform=lambda actor: nullcontext(), materialize=materialize
            )
        assert [(asset.name, asset.uri) for asset in task.inlets] == [
            ("delta:s3://lake/orders", "s3://lake/orders"), ("iceberg:lake.shop.prices", "lake.shop.prices"),
        ]  # fmt: skip
        task.render_template_fields({"params": params, "task": task, "data_interval_start": MIDNIGHT})
        task.execute(context())
        assert materialize.call_args.args[2] == {"ds": "2013-01-06", **asked}


BERLIN, NIGHTLY = "Europe/Berlin", "@daily"


@pytest.mark.parametrize(
    "dag",
    [
        {"schedule": NIGHTLY, "start_date": datetime(2013, 1, 1, tz=BERLIN)},
        {"schedule": timedelta(days=1), "start_date": datetime(2013, 1, 1, tz=BERLIN)},
        {"schedule": CronDataIntervalTimetable(NIGHTLY, BERLIN)},
        {"schedule": CronTriggerTimetable(NIGHTLY, timezone=BERLIN), "start_date": datetime(2013, 1, 1)},
        {"schedule": MultipleCronTriggerTimetable(NIGHTLY, timezone=BERLIN)},
        {
            "schedule": AssetOrTimeSchedule(
                timetable=CronTriggerTimetable(NIGHTLY, timezone=BERLIN), assets=[Asset("a")]
            )
        },
        {"schedule": core.CronTriggerTimetable(NIGHTLY, timezone=BERLIN)},
        {"schedule": core.MultipleCronTriggerTimetable(NIGHTLY, timezone=BERLIN)},
    ],
    ids=lambda dag: f"{type(dag['schedule']).__module__}.{type(dag['schedule']).__name__}",
)
def test_the_day_is_that_of_the_zone_of_the_schedule(dag):
    """Where the day of a run at midnight is another one in UTC; Airflow gives the begin of the interval in UTC."""
    begins = datetime(2013, 1, 6, tz=BERLIN).in_timezone("UTC")
    assert rendered(begins=begins, **dag)[0].parameters["ds"] == "2013-01-06"


def test_a_missing_field_and_a_strategy_that_there_is_not_fail_with_the_remedy():
    """At once: trying again is useless."""
    with pytest.raises(AirflowFailException, match=r"one: no value for the parameters site\. Set them when trigger"):
        rendered()[0].execute(context())
    with pytest.raises(AirflowFailException, match=r"no value for the parameters ds.*parameter `ds`"):
        rendered(params={"site": "jfk"}, begins=None)[0].execute(context())
    with pytest.raises(AirflowFailException, match=r"'cash_only': use one of cache_only, cache_through, async_store,"):
        make_operator(strategy="cash_only").execute(context())


def test_a_quality_gate_that_stops_leaves_its_report():
    """The task fails at once, and the report can be read from the run."""
    run_context = context()
    with pytest.raises(AirflowFailException, match="3 rows"):
        make_operator(Mock(side_effect=QualityError("3 rows are broken", {"broken": 3}))).execute(run_context)
    run_context["ti"].xcom_push.assert_called_once_with("quality_report", {"broken": 3})


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (IrrecoverableError, AirflowFailException),
        (FaultyOperationError, AirflowFailException),
        (StorageUnavailableError, StorageUnavailableError),
    ],
)
def test_what_no_retry_can_repair_fails_at_once(error, raised):
    """A lost source, or wrong code; a store that does not answer is left to Airflow's retries."""
    with pytest.raises(raised, match=r"etl\.clean: no flight"):
        make_operator(Mock(side_effect=error("etl.clean: no flight"))).execute(context())


def test_a_cleared_run_is_another_origin():
    """A backfill of a day that ran before clears that run and keeps its id; it must not adopt what it made before."""
    first = origin_of(context()["dag_run"], "clean")
    cleared = origin_of(context(clear_number=2)["dag_run"], "clean")
    assert first != cleared
    assert first.run_id == "manual__1"
    assert {first.run_id, cleared.run_id} <= set(names_of("manual__1"))


# ---- OpenLineage, by Airflow's provider


def extracted(operator):
    """What the provider finds out of a task that ended well."""
    run = SimpleNamespace(run_id="manual__1")
    return ExtractorManager().extract_metadata(run, operator, TaskInstanceState.SUCCESS, SimpleNamespace())


@pytest.fixture
def events(monkeypatch, tmp_path):
    """Reads the events that the provider's transport has written."""
    transport = {"type": "file", "log_file_path": str(tmp_path / "events")}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "here")
    return lambda: [json.loads(each.read_text()) for each in tmp_path.glob("events*")]


def test_the_provider_reports_the_generations_that_a_task_read_and_wrote(events):
    """With the facet of persistence, through Airflow's own masking of secrets."""
    operator = make_operator()
    operator.execute(context())
    OpenLineageAdapter().complete_task(
        run_id="018ec1d0-0000-7000-8000-000000000000", job_name="etl.clean", end_time="2013-01-05T00:00:00Z",
        task=extracted(operator), nominal_start_time=None, nominal_end_time=None, owners=[], tags=[],
        job_description=None,
    )  # fmt: skip
    (event,) = events()
    ((source,), (output,)) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("here", "etl/2013-01-05/parse")
    assert source["facets"]["version"]["datasetVersion"] == "2"
    assert (output["name"], output["facets"]["version"]["datasetVersion"]) == ("etl/2013-01-05/clean", "3")
    facet = output["outputFacets"]["springline_persistence"]
    assert (facet["event"], facet["generation"], facet["rows"], facet["digest"]) == ("committed", 3, 7, "d1")
    schema = json.loads((Path(monitoring.__path__[0]) / "schemas" / FACET_FILE).read_text())
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(facet)


def test_nothing_is_sent_where_the_provider_sends_nothing():
    """As it is by default; of a task that failed, and wrote no generation, the provider gets none."""
    assert open_task_lineage() is None
    datasets_of_task = extracted(make_operator(Mock(side_effect=QualityError("too many broken rows", {}))))
    assert (datasets_of_task.inputs, datasets_of_task.outputs) == ([], [])


def test_what_happens_later_goes_to_where_the_provider_sends(events):
    """But for commits, which the provider sends itself."""
    lineage = open_task_lineage("fifo")
    assert lineage.events == LineageEventBuilder("here", "fifo", sends_commits=False)
    lineage.on_transition(Event.EVICTED, replace(DATASET, phase=Phase.COMMITTED))
    lineage.close()
    assert sorted(each["eventType"] for each in events()) == ["COMPLETE", "START"]
