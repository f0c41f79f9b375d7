"""The rows of the benchmark as records of a schema, one a message: Avro and Protobuf."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from springline.spark_jobs.streaming.examples.netflow import BLOCK, FIELDS, Flows, flows_stream
from springline.spark_jobs.streaming.sources.schema import Stream

SCHEMAS = {"avro": Path(__file__).parent / "flow.avsc", "protobuf": Path(__file__).parent / "flow.proto"}


def stream_of(form: str) -> Stream:
    """Return the stream of the rows in a form."""
    if form not in SCHEMAS:
        return flows_stream(form)
    return flows_stream(form, format_options={"schema": str(SCHEMAS[form])})


def messages_of(flows: Flows, form: str, size: int) -> Iterator[bytes]:
    """Yield all rows as messages; those of a schema have one row."""
    if form not in SCHEMAS:
        yield from flows.messages(form, size=size)
        return
    encode = _avro() if form == "avro" else _protobuf()
    for first in range(0, flows.rows, BLOCK):
        rows: pa.Table = flows.table(first, min(first + BLOCK, flows.rows))
        columns = [rows[field.name].to_pylist() for field in FIELDS]
        for values in zip(*columns, strict=True):
            yield encode(values)


def _avro() -> Callable[[tuple[Any, ...]], bytes]:
    schema = fastavro.schema.load_schema(str(SCHEMAS["avro"]))
    names = [field.name for field in FIELDS]

    def encode(values: tuple[Any, ...]) -> bytes:
        content = io.BytesIO()
        fastavro.schemaless_writer(content, schema, dict(zip(names, values, strict=True)))
        return content.getvalue()

    return encode


@cache
def _protobuf() -> Callable[[tuple[Any, ...]], bytes]:
    file = SCHEMAS["protobuf"]
    with TemporaryDirectory() as folder:
        includes = [f"-I{file.parent}", f"-I{files('grpc_tools') / '_proto'}"]
        if protoc.main(["protoc", *includes, f"--descriptor_set_out={folder}/set", file.name]):
            raise ValueError(f"{file} cannot be compiled")
        (descriptor,) = FileDescriptorSet.FromString(Path(folder, "set").read_bytes()).file
    pool = DescriptorPool()
    pool.Add(descriptor)
    kind, names = GetMessageClass(pool.FindMessageTypeByName("Flow")), [field.name for field in FIELDS]

    def encode(values: tuple[Any, ...]) -> bytes:
        content: bytes = kind(**dict(zip(names, values, strict=True))).SerializeToString()
        return content

    return encode
