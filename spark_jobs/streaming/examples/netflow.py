"""Net-flow rows as in the paper: 25 fields, about 150 bytes of CSV or 90 of Arrow, deterministic for a seed.

Rows are generated in independent blocks, so any part of a long stream can be generated without the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from springline.spark_jobs.streaming.runtime.json_lines import json_lines
from springline.spark_jobs.streaming.sources.schema import Field, Stream

BLOCK = 50_000  # rows that are generated together
_BY_LINE = 100  # messages with fewer rows are cut from lines that are encoded together
_NUMBERS = {  # exclusive upper limits of the values
    "sport": 65_535, "dport": 1_024, "bytes": 1_500, "packets": 50, "protocol": 256, "flags": 64, "tos": 256,
    "in_port": 10_000, "out_port": 10_000, "source_as": 65_536, "destination_as": 65_536, "source_mask": 33,
    "destination_mask": 33, "next_hop": 1_000_000_000, "duration": 10_000_000, "vlan": 4_096, "label": 1_048_576,
    "ttl": 256, "sensor": 10_000_000, "engine": 100_000_000, "location": 10_000,
}  # fmt: skip
FIELDS = (
    Field("timestamp", "timestamp(s)"),
    Field("sip", "text"),
    Field("type", "text"),
    Field("dip", "text"),
    *(Field(name, "int") for name in _NUMBERS),
)


@dataclass(frozen=True)
class Flows:
    """A stream of `rows` rows, `rate` per second of event time, beginning at `start`.

    Keys are drawn from `sips` × `types` values, uniformly or by Zipf's law with the exponent `skew`. A source is an
    address or, with `general`, a text of varying length. A share of `disorder` rows is up to `delay` seconds late.
    """

    rows: int
    seed: int = 1
    sips: int = 1_000
    types: int = 10
    skew: float = 0.0
    general: bool = False
    rate: float = 100_000.0
    start: float = 1_700_000_040.0
    disorder: float = 0.0
    delay: float = 5.0

    def table(self, first: int, last: int) -> pa.Table:
        """Return the rows [first, last)."""
        blocks = range(first // BLOCK, -(-last // BLOCK)) if last > first else range(0)
        drawn = [self._block(block) for block in blocks]
        if not drawn:
            return self._block(0).slice(0, 0)
        return pa.concat_tables(drawn).slice(first - blocks[0] * BLOCK, last - first).combine_chunks()

    def messages(self, form: str = "csv", *, size: int = 5_000, units: int = 1, unit: int = 0) -> Iterator[bytes]:
        """Yield all rows as messages of `size` rows; with `units` > 1, every `units`-th message, those of `unit`."""
        begin, block_rows, lines = 0, self.table(0, 0), list[bytes]()
        by_line = form != "arrow" and size < _BY_LINE
        for number, first in enumerate(range(0, self.rows, size)):
            last = min(first + size, self.rows)
            if number % units != unit:
                continue
            if last > begin + block_rows.num_rows:
                begin, block_rows = first, self.table(first, max(last, (first // BLOCK + 1) * BLOCK))
                lines = encode_table(block_rows, form).splitlines(keepends=True) if by_line else []
            if by_line:
                yield b"".join(lines[first - begin : last - begin])
            else:
                yield encode_table(block_rows.slice(first - begin, last - first), form)

    def _block(self, block: int) -> pa.Table:
        generator = np.random.default_rng([self.seed, block])
        times = self.start + (block * BLOCK + np.arange(BLOCK)) / self.rate
        is_late = generator.random(BLOCK) < self.disorder
        times = np.round(times - is_late * generator.random(BLOCK) * self.delay, 3)
        columns: dict[str, Any] = {
            "timestamp": times,
            "sip": self._sources.take(pa.array(self._ranks(generator, self.sips))),
            "type": pa.array([f"t{i}" for i in range(self.types)]).take(pa.array(self._ranks(generator, self.types))),
            "dip": self._destinations.take(pa.array(generator.integers(0, 65_536, BLOCK))),
        }
        for name, limit in _NUMBERS.items():
            columns[name] = generator.integers(0, limit, BLOCK).astype(np.min_scalar_type(limit - 1))
        return pa.table(columns)

    def _ranks(self, generator: np.random.Generator, values: int) -> npt.NDArray[np.int64]:
        if not self.skew:
            ranks: npt.NDArray[np.int64] = generator.integers(0, values, BLOCK)
            return ranks
        weights = np.cumsum(1.0 / np.arange(1, values + 1) ** self.skew)
        return np.asarray(np.searchsorted(weights, generator.random(BLOCK) * weights[-1]))

    @cached_property
    def _destinations(self) -> pa.Array:
        return _addresses(192, np.arange(65_536))

    @cached_property
    def _sources(self) -> pa.Array:
        if not self.general:
            return _addresses(10, np.arange(self.sips))
        lengths = np.random.default_rng(self.seed).integers(4, 30, self.sips)
        return pa.array([(f"{i:x}." + "host-" * 6)[: max(int(length), 9)] for i, length in enumerate(lengths)])


def flows_stream(form: str = "csv", **settings: Any) -> Stream:
    """Return the stream `flows`; `settings` override its defaults."""
    return Stream("flows", FIELDS, "timestamp", form, **settings)


def encode_table(table: pa.Table, form: str) -> bytes:
    """Encode a table as one message."""
    sink = pa.BufferOutputStream()
    if form == "csv":
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        pa.csv.write_csv(table, sink, options)
    elif form == "arrow":
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        return b"".join(map(json_lines, table.to_batches()))
    return bytes(sink.getvalue())


def _addresses(first: int, hosts: npt.NDArray[np.int64]) -> pa.Array:
    parts = [(hosts >> shift & 255).astype("U3") for shift in (16, 8, 0)]
    dotted = np.char.add(f"{first}.", parts[0])
    for part in parts[1:]:
        dotted = np.char.add(np.char.add(dotted, "."), part)
    return pa.array(dotted)
