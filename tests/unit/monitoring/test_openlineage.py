"""OpenLineage events: what is reported of datasets, in the form that the standard and our facet's schema want."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.transport.file import FileConfig, FileTransport

from springline.persistence import monitoring
from springline.persistence.model import dataset as model
from springline.persistence.model.dataset import Call, DatasetStatus, OperationResult, Origin, Strategy
from springline.persistence.monitoring.openlineage_events import FACET, SCHEMA
from springline.persistence.monitoring.openlineage_sender import LineageSender, open_lineage_sender
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import wipe_cache
from tests.support.metered import collector

FILE = Path(monitoring.__path__[0]) / "schemas" / f"{SCHEMA.split(':', 3)[3].replace(':', '-')}.json"
FACET_SCHEMA = json.loads(FILE.read_text())
TASK = Origin("etl", "r1", "clean")

Events = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """OpenLineage's client writes into the environment where it reads an address: that ends with the test."""
    before = dict(os.environ)
    yield
    for name in [each for each in os.environ if each.startswith("OPENLINEAGE") and each not in before]:
        del os.environ[name]


@pytest.fixture
def platform_and_events(
    open_at: Callable[..., Platform], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Opens a platform whose events go to a file; called again, the events until then, each found valid."""
    file = tmp_path / "events.ndjson"
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(file), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    platform = open_at()

    def read_events() -> Events:
        platform.close()
        events = [json.loads(line) for line in file.read_text().splitlines()]
        for event in events:
            check(event)
        return events

    return platform, read_events


def check(event: dict[str, Any]) -> None:
    """An event that the library's classes, which are made from the standard's schema, take as it is; its facets too."""
    inputs = [InputDataset(**each) for each in event["inputs"]]
    outputs = [OutputDataset(**each) for each in event["outputs"]]
    rest = {key: value for key, value in event.items() if key not in ("inputs", "outputs", "schemaURL")}
    fields = {
        **rest, "run": Run(**event["run"]), "job": Job(**event["job"]), "eventType": RunState(event["eventType"]),
        "inputs": inputs, "outputs": outputs,
    }  # fmt: skip
    assert RunEvent(**fields).schemaURL == event["schemaURL"]
    facet_groups = [event["run"]["facets"], event["job"]["facets"]]
    facet_groups += [each["facets"] for each in (*event["inputs"], *event["outputs"])]
    facet_groups += [each["outputFacets"] for each in event["outputs"]]
    for facets in facet_groups:
        assert all(facet["_producer"] and facet["_schemaURL"] for facet in facets.values())
    for output in event["outputs"]:
        Draft202012Validator(FACET_SCHEMA, format_checker=FormatChecker()).validate(output["outputFacets"][FACET])


def facet(event: dict[str, Any]) -> dict[str, Any]:
    """What an event reports of the persistence of its output."""
    (output,) = event["outputs"]
    facet_fields: dict[str, Any] = output["outputFacets"][FACET]
    return facet_fields


def kinds(events: Events) -> list[tuple[str, str]]:
    """Job and type of each event."""
    return [(event["job"]["name"], event["eventType"]) for event in events]


def test_the_schema_of_our_facet_is_one_and_knows_every_state() -> None:
    """Every value that the code may report is allowed, and the address in events names it."""
    Draft202012Validator.check_schema(FACET_SCHEMA)
    allowed = {name: set(definition.get("enum", ())) for name, definition in FACET_SCHEMA["properties"].items()}
    assert FACET_SCHEMA["$id"] == FACET_SCHEMA["properties"]["_schemaURL"]["const"] == SCHEMA
    assert allowed["state"] == set(DatasetStatus) - {DatasetStatus.WRITING}
    assert (allowed["cache"], allowed["underStore"]) == (set(model.CacheState), set(model.UnderStoreState))
    assert (allowed["strategy"], allowed["persistedBy"]) == (set(Strategy), set(model.TransferMethod))


def test_a_commit_reports_inputs_outputs_and_that_nothing_is_persisted_yet(platform_and_events: Any) -> None:
    """With exact generations, rows and bytes."""
    platform, read_events = platform_and_events
    make(platform, "a", "load")
    dataset = make(platform, "b", "shout", ["a"])
    began, event = read_events()[-2:]
    assert kinds([began, event]) == [("shout", "START"), ("shout", "COMPLETE")]
    assert began["run"]["runId"] == event["run"]["runId"]
    ((source,), (output,)) = event["inputs"], event["outputs"]
    assert (source["name"], source["facets"]["version"]["datasetVersion"]) == ("a", "1")
    assert (output["namespace"], output["name"]) == ("default", "b")
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (100, dataset.bytes)
    persistence = facet(event)
    assert {key: persistence[key] for key in ("event", "state", "generation", "underStore", "policy")} == {
        "event": "committed", "state": "cached", "generation": 1, "underStore": "none", "policy": "value-density",
    }  # fmt: skip
    assert "persistedBy" not in persistence


@pytest.mark.parametrize(
    ("read", "namespace", "name"),
    [
        ("delta:s3://lake/shop/orders@17", "s3://lake", "shop/orders"),
        ("iceberg:lake.shop.orders@17", "iceberg://lake", "shop.orders"),
        ("delta:/srv/orders@17", "file", "/srv/orders"),
    ],
)
def test_a_table_that_was_read_is_an_input_with_its_version(
    platform_and_events: Any, read: str, namespace: str, name: str
) -> None:
    """By the names that OpenLineage gives to what is outside; other parameters are none."""
    platform, read_events = platform_and_events
    call = Call("load", "1", {"orders": read, "mail": "user@7", "ds": "2013-01-05"})
    with platform.store.write("a", call=call, strategy=Strategy.CACHE_ONLY) as writing:
        Path(writing.uri.removeprefix("file://")).mkdir(parents=True)
        Path(writing.uri.removeprefix("file://"), "part.txt").write_text("x")
        writing.mark_complete(OperationResult(1, "", 0.0))
    (source,) = read_events()[-1]["inputs"]
    assert (source["namespace"], source["name"]) == (namespace, name)
    assert source["facets"]["version"]["datasetVersion"] == "17"


def test_a_commit_is_not_reported_where_the_task_reports_it(open_at: Callable[..., Platform], tmp_path: Path) -> None:
    """The task's own events name what it made; a later change is reported all the same."""
    file = tmp_path / "events"
    client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(file), append=True)))
    platform, lineage = open_at(), LineageSender(client, "here", sends_commits=False)
    platform.catalog.subscribe(lineage.on_transition)
    make(platform, "a", "load", origin=TASK)
    platform.persister.drain()
    lineage.close()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert kinds(events) == [("persistence.copied", "START"), ("persistence.copied", "COMPLETE")]
    assert {event["job"]["namespace"] for event in events} == {"here"}


def test_what_no_operation_made_is_reported_by_the_name_of_its_task(platform_and_events: Any) -> None:
    """As the states of streams are."""
    platform, read_events = platform_and_events
    make(platform, "a", lines=["x"], origin=Origin("stream_flights", "1", "map-0"))
    assert kinds(read_events()) == [("stream_flights.map-0", "START"), ("stream_flights.map-0", "COMPLETE")]


def test_a_transfer_a_loss_and_a_recovery_are_reported(platform_and_events: Any) -> None:
    """As runs of their own, with where the bytes are then; a transfer with its seconds."""
    platform, read_events = platform_and_events
    dataset = make(platform, "a", "load", origin=TASK)
    platform.persister.drain()
    wipe_cache(platform)
    platform.maintenance.scan()
    platform.restorer.ensure_cached([dataset.ref])
    events = read_events()
    assert kinds(events)[2:4] == [("persistence.copied", "START"), ("persistence.copied", "COMPLETE")]
    facets = {event["job"]["name"]: facet(event) for event in events if event["outputs"]}
    copied = facets["persistence.copied"]
    seconds = platform.catalog.get(dataset.ref).actual_seconds
    assert [copied[name] for name in ("state", "persistedBy", "persistedSeconds")] == ["persisted", "data", seconds]
    assert facets["persistence.lost"]["cache"] == "lost" and facets["persistence.restored"]["cache"] == "present"


def test_a_write_that_fails_is_a_run_that_failed_and_holds_no_password(platform_and_events: Any) -> None:
    """With the error."""
    platform, read_events = platform_and_events
    with pytest.raises(OSError), platform.store.write("a", strategy=Strategy.ASYNC_STORE):
        raise OSError("cannot reach s3://ann:hunter2@host")
    _, event = read_events()
    assert event["eventType"] == "FAIL"
    assert event["run"]["facets"]["errorMessage"]["message"] == "OSError: cannot reach s3://ann:***@host"


def test_what_is_on_its_way_is_not_reported(platform_and_events: Any) -> None:
    """A synchronous copy is part of the commit."""
    platform, read_events = platform_and_events
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    events = read_events()
    assert kinds(events) == [("load", "START"), ("load", "COMPLETE")]
    assert facet(events[1])["state"] == "persisted"


def test_events_go_to_an_address_with_the_key(open_at: Callable[..., Platform], monkeypatch: Any) -> None:
    """Below its path for lineage."""
    with collector() as (address, requests):
        monkeypatch.setenv("OPENLINEAGE_URL", address)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "hunter5")
        platform = open_at()
        make(platform, "a", "load", origin=TASK)
        platform.close()
    assert [path for path, _ in requests] == ["/api/v1/lineage"] * 2
    for _, body in requests:
        check(json.loads(body))


@pytest.mark.parametrize(
    "transport",
    [
        {"TYPE": "http", "URL": "http://127.0.0.1:9", "RETRY": '{"total": 0}'},
        {"TYPE": "file", "LOG_FILE_PATH": "/nosuch/events", "APPEND": "true"},
    ],
)
def test_a_place_that_takes_no_events_stops_no_work(
    open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch, caplog: Any, transport: dict[str, str]
) -> None:
    """An address that is away, a folder that is not there; it is logged at most once."""
    for name, value in transport.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    platform = open_at()
    dataset = make(platform, "a", "load", origin=TASK)
    platform.persister.drain()
    with caplog.at_level(logging.WARNING, "springline.openlineage"):
        platform.close()
    assert platform.catalog.get(dataset.ref).persisted
    assert sum(record.name == "springline.openlineage" for record in caplog.records) <= 1


def test_nothing_is_set_up_where_no_place_is_named() -> None:
    """As it is by default, and where OpenLineage is disabled."""
    assert open_lineage_sender(environment={}) is None
    assert open_lineage_sender(environment={"OPENLINEAGE_URL": "http://host", "OPENLINEAGE_DISABLED": "true"}) is None


def test_an_unknown_transport_stops_no_work(
    open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged."""
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
    with caplog.at_level(logging.ERROR, "springline.openlineage"):
        platform = open_at()
    make(platform, "a", "load")
    assert platform.lineage_sender is None
    assert ["pigeon" in record.message for record in caplog.records] == [True]
