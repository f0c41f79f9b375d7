"""Avro: one record a message, in Avro's binary encoding."""

from __future__ import annotations

from typing import ClassVar

from springline.spark_jobs.streaming.sources import avro_kernels as kernels
from springline.spark_jobs.streaming.sources.avro_programs import AvroCompiler
from springline.spark_jobs.streaming.sources.record_format import RecordFormat


class Avro(RecordFormat):
    """Records in Avro's binary encoding, one a message; each is read by the schema that it was written with."""

    kind = "AVRO"
    reasons: ClassVar = {
        kernels.ENDS: "the record ends inside a value, at byte {0}",
        kernels.GOES_ON: "the record has ended at byte {0}, and more bytes follow",
        kernels.LONG_NUMBER: "no number at byte {0}",
        kernels.OUT_OF_RANGE: "the schema has no such branch or symbol, at byte {0}",
        kernels.NO_UTF8: "not UTF-8, at byte {0}",
        kernels.TOO_DEEP: f"more than {kernels.MAX_LEVELS:,} levels, at byte {{0}}",
    }

    def compiler(self) -> AvroCompiler:
        return AvroCompiler({name: self.layout.fields[name] for name in self.columns})
