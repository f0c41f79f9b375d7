"""A process that decodes messages as windows and joins do: one that dies of a message is a failed test, no more."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource, Router
from springline.spark_jobs.streaming.join.routing.strategies import strategy_of
from springline.spark_jobs.streaming.join.wire import JoinSide, KeyBand, RoutedBatch
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, encode_dead_letters, encode_results
from springline.spark_jobs.streaming.runtime.message import Message, batches_of
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, Round, State
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.windows.mapper import Mapper
from tests.support.decoding.windows_job import FIELDS, Job, registry, stream

NAMES = tuple(each.name for each in FIELDS)
Letter = tuple[int, str, bytes]  # offset, reason, bytes
QUERIES = {
    "q": "SELECT sip, kind, count(*) AS n, sum(bytes) AS b, max(load) AS l FROM S GROUP BY sip, kind WINDOWING 60 s"
}
_STAGE = Stage("map", "step", "source", job="job", results="results", dead_letters="dead")
_SIZE = struct.Struct("<I")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Decoded:
    """What became of some messages: the rows, and the letters as (offset, reason, bytes).

    `originals` are the bytes of each row that was read, `results` the lines of the results over the rows. What the
    steps make of the same: `joined` is what a router sends on, `windowed` what a mapper adds up, each a row as
    (microseconds, sip, kind, bytes, load), with the letters of both.
    """

    rows: list[dict[str, Any]]
    dead: list[Letter]
    originals: list[tuple[int, bytes]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    joined: list[tuple[Any, ...]] = field(default_factory=list)
    joined_dead: list[Letter] = field(default_factory=list)
    windowed: list[tuple[Any, ...]] = field(default_factory=list)
    windowed_dead: list[Letter] = field(default_factory=list)


def decode(form: str, values: Sequence[bytes], *, windows: bool = False) -> Decoded:
    """By the decoder; with `windows` also by the steps of joins and windows, up to their results."""
    messages = [Message(offset, value) for offset, value in enumerate(values)]
    source = RelationSource("source", Relation("l", {each.name: each.type for each in FIELDS}), form)
    row_format = open_format(source.layout, NAMES)
    table, dead = rows_of(row_format, batches_of(messages))
    table.validate(full=True)
    micros = table.column("time").cast(pa.int64()).to_pylist()
    rows = [
        {**row, "time": None if time is None else time / 1e6}
        for row, time in zip(table.to_pylist(), micros, strict=True)
    ]
    decoded = Decoded(rows, _dead_letters(dead))
    for chunk in row_format.chunks(batches_of(messages), []):
        for row in chunk.source_rows:
            (letter,) = chunk.source.dead_letters(chunk.source_rows[chunk.source_rows == row], lambda row, place: "")
            decoded.originals.append((letter.offset, letter.value))
    if not windows:
        return decoded
    _route(source, messages, decoded)
    _map(form, messages, decoded)
    job = Job(registry(QUERIES, stream(format=form)))
    job.round(values)
    job.round(clock=1e6)  # all are idle for so long that every window closes
    for letter in encode_dead_letters(_STAGE, 0, (1, 1), Output(State(), dead_letters=job.dead)):
        letter.headers["reason"].decode()
    for record in encode_results(_STAGE, 0, (1, 1), Output(State(), results=job.results)):
        decoded.results += [json.loads(line) for line in record.value.decode().split("\n") if line]
    return decoded


class _Everything:
    """The condition of a join that every row takes part in, with all of its columns."""

    key_band = KeyBand(0, 0)
    _schema = pa.schema([])

    def fields(self, side: JoinSide) -> Sequence[str]:
        return NAMES

    def filter(self, side: JoinSide, rows: pa.RecordBatch) -> Any:
        self._schema = rows.schema
        return np.ones(rows.num_rows, np.bool_)

    def keys(self, side: JoinSide, rows: pa.RecordBatch) -> Any:
        return np.zeros(rows.num_rows, np.int64), np.ones(rows.num_rows, np.bool_)

    def routed_schema(self, side: JoinSide) -> pa.Schema:
        own = [("key", pa.int64()), ("seq", pa.int64()), ("unit", pa.uint8()), ("action", pa.uint8())]
        return pa.schema([*own, *self._schema])

    def carried(self, side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
        return rows.columns


def _route(source: RelationSource, messages: Sequence[Message], decoded: Decoded) -> None:
    """What a router sends of the messages."""
    other = RelationSource("other", Relation("r", source.relation.fields))
    table = strategy_of("hash").first(1, 1).as_json()
    step_input = Input("route", 0, Round(1, 1, 0.0, {TABLE: table}), messages, {0: (0, len(messages))})
    output = Router(source, other, 1, 1, _Everything())(State(), step_input)
    for batch in output.buffers[0]:
        for row in RoutedBatch.read(arrow_bytes(batch)).tuples.to_pylist():
            time = row["time"]
            micros = None if time is None else (time - _EPOCH) // timedelta(microseconds=1)
            decoded.joined.append((micros, *(row[name] for name in NAMES[1:])))
    decoded.joined_dead = _dead_letters(output.dead_letters)


def _map(form: str, messages: Sequence[Message], decoded: Decoded) -> None:
    """What a mapper adds up of the messages, in windows as short as the resolution of times."""
    query = "SELECT sip, kind, bytes, load, count(*) AS n FROM S GROUP BY sip, kind, bytes, load WINDOWING 1 us"
    versions = {"queries": to_json_value(registry({"q": f"{query} LATE 36525 d"}, stream(format=form)))}
    step_input = Input("map", 0, Round(1, 1, 0.0, versions), messages, {0: (0, len(messages))})
    output = Mapper("S", 1)(State(), step_input)
    for batch in output.buffers[0]:
        if "slice" in batch.schema.names:
            for row in batch.to_pylist():
                decoded.windowed += [tuple(row[name] for name in ("slice", "k0", "k1", "k2", "k3"))] * row["rows()"]
    decoded.windowed_dead = _dead_letters(output.dead_letters)


def _dead_letters(dead: Iterable[DeadLetter]) -> list[Letter]:
    return [(letter.offset, letter.reason, letter.value) for letter in dead]


class DecoderProcess:
    """Decodes in a process of its own, which is restarted after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def decode(self, form: str, values: Sequence[bytes], *, windows: bool = False) -> Decoded:
        """What `decode` gives; an assertion fails where it raises or dies."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.support.decoding.decoder_process"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        request = pickle.dumps((form, list(values), windows))
        self._process.stdin.write(_SIZE.pack(len(request)) + request)
        self._process.stdin.flush()
        head = self._process.stdout.read(_SIZE.size)
        if len(head) < _SIZE.size:
            code, self._process = self._process.wait(), None
            raise AssertionError(f"the decoder died with exit status {code} of {values!r}")
        answer = pickle.loads(self._process.stdout.read(_SIZE.unpack(head)[0]))
        assert isinstance(answer, Decoded), answer
        return answer

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.communicate()


def _serve() -> None:
    while len(head := sys.stdin.buffer.read(_SIZE.size)) == _SIZE.size:
        form, values, windows = pickle.loads(sys.stdin.buffer.read(_SIZE.unpack(head)[0]))
        try:
            answer: Any = decode(form, values, windows=windows)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        encoded_answer = pickle.dumps(answer)
        sys.stdout.buffer.write(_SIZE.pack(len(encoded_answer)) + encoded_answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    from tests.support.decoding import decoder_process  # what is pickled is of a module that both know

    decoder_process._serve()
