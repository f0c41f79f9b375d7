"""Decoder of JSON lines to chunks of rows: one object per line, one or more lines per message.

A missing field is null. An integer must have no decimal point or exponent; a projected name must occur only once. The
kernel checks lines strictly by RFC 8259, and also accepts NaN, Infinity and -Infinity, which many programs write; in a
field of floats also as texts, as in results. No other JSON parser reads the lines, so none can fail on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.field_types import BYTES, ColumnTypes
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.json_kernels import read_objects
from springline.spark_jobs.streaming.sources.layout import Layout, is_below, parts_of_path
from springline.spark_jobs.streaming.sources.text import MAX_LEVELS, ParseResult, RowBuffers, text_chunks


class Json(Format):
    """Rows as objects, each on a line, one or more in a message.

    A field `a.b` is `b` of the object `a`, a field `a[0]` the first item of the list `a`.
    """

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        for outer in layout.fields:
            if inner := next((name for name in layout.fields if is_below(name, outer)), ""):
                raise InvalidFormatError(f"{inner} is a part of {outer}, which is a field itself")
        names = _names_of(self.columns)
        self._names = np.frombuffer(b"".join(each.name for each in names) + b"\0", np.uint8)
        self._bounds = np.cumsum([0, *(len(each.name) for each in names)])
        self._places = np.array([each[1:] for each in names], np.int64).reshape(-1, 4).T.copy()
        self._types = ColumnTypes.of([layout.fields[name] for name in self.columns])
        self._has_bytes = bool((self._types.kinds == BYTES).any())

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        return text_chunks(self._read, self, batches, dead)

    def _read(self, joined: bytearray, ends: Ints, buffers: RowBuffers) -> ParseResult:
        data = np.frombuffer(joined, np.uint8)
        if self._has_bytes or b"\\" in joined:  # they are decoded in place, and dead letters keep what they were
            data = data.copy()
        stack = np.empty(MAX_LEVELS - 1, np.uint8)  # levels inside an object
        owners, nodes, columns, items = self._places
        good, bad, slow_count = read_objects(
            data, int(ends[-1]), self._names, self._bounds, owners, nodes, columns, items, *self._types, stack, *buffers
        )
        return ParseResult(good, bad, slow_count, data)


class _Name(NamedTuple):
    """A name that is wanted in the objects of a node: its value is a node or, if that is 0, a column.

    With an `item` of 0 or more it is an item that is wanted in the lists of a node.
    """

    name: bytes
    owner: int
    node: int
    column: int
    item: int = -1


def _names_of(projection: Sequence[str]) -> list[_Name]:
    """Return the names that lead to the projected columns: of `a.b`, both `a.b` itself and `b` of an object `a`."""
    names: dict[tuple[int, str], _Name] = {}
    for column, path in enumerate(projection):
        *outer, last = parts_of_path(path)
        owner = 0
        for name in outer:
            owner = names.setdefault((owner, name), _name(name, owner, len(names) + 1, column)).node
        names[owner, last] = _name(last, owner, 0, column)
        names[0, path] = _Name(path.encode(), 0, 0, column)
    return list(names.values())


def _name(part: str, owner: int, node: int, column: int) -> _Name:
    if part.startswith("[") and part.endswith("]"):
        return _Name(b"", owner, node, column, int(part[1:-1]))
    return _Name(part.encode(), owner, node, column)
