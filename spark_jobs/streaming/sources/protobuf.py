"""Protobuf: one message in Protobuf's binary encoding in each record of the topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.sources import protobuf_kernels as kernels
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.protobuf_programs import ProtobufCompiler
from springline.spark_jobs.streaming.sources.record_format import RecordFormat, RecordOptions


class ProtobufOptions(RecordOptions, frozen=True):
    """Keys of `format_options` of Protobuf."""

    message: Annotated[
        str, Meta(description="full name of the message type in the file of the schema; empty: its first one")
    ] = ""


class Protobuf(RecordFormat):
    """Records in Protobuf's binary encoding, one a message; each is read by the schema that it was written with."""

    Options = ProtobufOptions
    kind = "PROTOBUF"
    reasons: ClassVar = {
        kernels.ENDS: "the record ends inside a value, at byte {0}",
        kernels.NO_KEY: "no field begins at byte {0}",
        kernels.LONG_NUMBER: "no number at byte {0}",
        kernels.OUT_OF_RANGE: "a number out of range, or a value that its enum lacks, at byte {0}",
        kernels.NO_UTF8: "not UTF-8, at byte {0}",
    }

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        if self.options.message and not self.options.schema:
            raise InvalidFormatError(
                f"format_options of {layout.format}: message = {self.options.message!r} goes with a `schema` file; "
                "with a registry, each message says which type it is of"
            )

    def compiler(self) -> ProtobufCompiler:
        fields = {name: self.layout.fields[name] for name in self.columns}
        folder = Path(self.options.schema).absolute().parent if self.options.schema else None
        return ProtobufCompiler(fields, self.options.message, folder)

    def headers(self, messages: MessageBatch, ids: Ints) -> tuple[Ints, Ints]:
        types, begins = np.empty(len(messages), np.int64), np.empty(len(messages), np.int64)
        starts = messages.starts.astype(np.int64)
        kernels.read_headers(messages.data, starts, starts + messages.lengths, ids, types, begins)
        return types, begins
