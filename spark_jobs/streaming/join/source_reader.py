"""From messages of a source's topic to a table of typed rows, with what cannot be used as dead letters.

Messages are read as windows read them, by the same decoders: so a row means the same to both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.chunk import array_of
from springline.spark_jobs.streaming.sources.decoder import chunks_of
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sql.expressions import ARROW


@dataclass(frozen=True)
class Source:
    """Where a relation's rows come from: a topic, and the form of its messages; CSV has the fields in their order."""

    topic: str
    relation: Relation
    form: str = "csv"
    delimiter: str = ","

    @property
    def layout(self) -> Layout:
        """How its rows are written."""
        return Layout(self.form, self.relation.fields, self.delimiter)

    def as_json(self) -> dict[str, Any]:
        """For the arguments of a step."""
        told = {"topic": self.topic, "form": self.form, "delimiter": self.delimiter}
        return {**told, "relation": self.relation.as_json()}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Source:
        """The inverse of `as_json`; raises `BadRelation`."""
        return Source(told["topic"], Relation.from_json(told["relation"]), told["form"], told["delimiter"])


class Rows(NamedTuple):
    """The good rows in their order, and the letters."""

    table: pa.Table
    dead: list[DeadLetter]


def read(source: Source, messages: Sequence[Message], wanted: Sequence[str]) -> Rows:
    """The wanted columns of all rows of some messages."""
    schema = pa.schema([(name, ARROW[source.relation.fields[name]]) for name in wanted])
    dead: list[DeadLetter] = []
    tables = [schema.empty_table()]
    for chunk in chunks_of(source.layout, wanted, messages, dead):
        tables.append(pa.table([array_of(chunk.columns[name]) for name in wanted], schema=schema))
    return Rows(pa.concat_tables(tables), dead)
