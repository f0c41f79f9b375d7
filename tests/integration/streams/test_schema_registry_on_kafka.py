"""A stream whose messages begin with the id of their schema, while the registry is killed and started again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.examples.netflow import FIELDS, Flows
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running
from tests.support.streams.stream_job import StreamJob, expected

FLOWS = Flows(20_000, seed=11, sips=50, types=5, rate=2_000)
_TYPES = {"int": "long", "float": "double", "timestamp(s)": "double", "text": "string"}
_PARTS: list[dict[str, object]] = [{"name": field.name, "type": _TYPES[field.type]} for field in FIELDS]
OLD = {"type": "record", "name": "Flow", "fields": _PARTS}
# Another order, optional values, and fields that nobody reads.
NEW = {
    "type": "record",
    "name": "Flow",
    "fields": [
        {"name": "path", "type": {"type": "array", "items": "string"}, "default": []},
        *({**part, "type": ["null", part["type"]]} for part in reversed(_PARTS)),
        {"name": "site", "type": ["null", {"type": "enum", "name": "Site", "symbols": ["a", "b"]}], "default": None},
    ],
}


@pytest.fixture
def job(kafka: Running, schema_registry: Running, tmp_path: Path) -> Iterator[StreamJob]:
    """A job that reads Avro."""
    job = StreamJob(
        kafka, tmp_path / "home", admitted=500, row_format="avro", SPRINGLINE_SCHEMA_REGISTRY=schema_registry.address
    )
    yield job
    job.close()


def counts_of(status: JobStatus) -> dict[str, int]:
    """What the mappers have counted."""
    return dict(status.stages.get("map", {}).get("counts", {}))


def test_rounds_wait_for_the_registry_and_each_message_is_read_by_its_schema(
    job: StreamJob, schema_registry: Running
) -> None:
    """Those of the schema that is new wait, and become no dead letters; a message without a schema does."""
    client = SchemaRegistryClient({"url": schema_registry.address})
    context = SerializationContext(job.name, MessageField.VALUE)
    rows = FLOWS.table(0, FLOWS.rows).to_pylist()
    half = len(rows) // 2
    old, new = (AvroSerializer(client, json.dumps(schema)) for schema in (OLD, NEW))
    first = [old(row, context) for row in rows[:half]]
    second = [new({**row, "path": ["x"] * 3, "site": "b"}, context) for row in rows[half:]]

    def put(values: list[bytes]) -> None:
        with job.kafka.log() as log, log.record_sender() as sending:
            for number, value in enumerate(values):
                sending.send(OutgoingRecord(job.name, number % 2, value))

    with job.kafka.log() as log:
        log.create({job.name: 2})
    put(first)
    job.start()
    job.await_(lambda status: counts_of(status).get("rows", 0) >= half, patience=240)
    schema_registry.kill("server")
    put([*second, b"\0\x7f\xff\xff\xff\2", b"\0\xff\xff\xff\xff", b"plain"])
    time.sleep(8)
    status = job.await_(lambda status: status.state == "running", patience=30, restart=False)
    assert counts_of(status)["rows"] == half and not counts_of(status)["dead_letters"]
    schema_registry.restart_stopped()
    job.await_rows(FLOWS.rows)
    job.stop()
    assert job.results() == expected(FLOWS)
    assert set(job.dead_letters()) == {
        f"schema {0x7FFFFFFF}: the registry has no such id",
        "it does not begin with the id of a schema: a zero and four bytes",
    }
    assert not [line for line in job.log().splitlines() if "attempt" in line and "failed" in line]
