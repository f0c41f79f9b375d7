"""Decoder of JSON lines to chunks of rows: one object per line, one or more lines per message.

A missing field is null. An integer must have no decimal point or exponent; a projected name must occur only once. The
kernel checks lines strictly by RFC 8259, and also accepts NaN, Infinity and -Infinity, which many programs write; in a
field of floats also as texts, as in results. No other JSON parser reads the lines, so none can fail on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.json_kernels import read_objects
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.text import KINDS, MAX_LEVELS, ParseResult, RowBuffers, text_chunks


def json_chunks(
    layout: Layout, projection: Sequence[str], batches: Iterable[MessageBatch], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """Yield the rows of the messages with the projected columns, in chunks; a chunk is valid until the next."""
    names = [name.encode() for name in projection]
    joined_names = np.frombuffer(b"".join(names) + b"\0", np.uint8)
    bounds = np.cumsum([0, *map(len, names)])
    kinds = np.array([KINDS[layout.fields[name]] for name in projection], np.int64)
    stack = np.empty(MAX_LEVELS - 1, np.uint8)  # levels inside an object

    def read(joined: bytearray, ends: Ints, buffers: RowBuffers) -> ParseResult:
        data = np.frombuffer(joined, np.uint8).copy()
        good, bad, slow_count = read_objects(data, joined_names, bounds, kinds, stack, *buffers)
        return ParseResult(good, bad, slow_count, data)

    return text_chunks(read, layout, projection, batches, dead)
