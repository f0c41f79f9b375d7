"""JSON lines to chunks of rows: an object a line, one or many lines a message.

A field that is missing is null. A whole number is written without a point and an exponent; a name that is wanted stands
once. Lines are read to the letter of RFC 8259, with NaN, Infinity and -Infinity as many write them, and no other reader
sees them, so none can fall over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.json_kernels import read_objects
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.text import KINDS, LEVELS, Read, Room, text_chunks


def json_chunks(
    layout: Layout, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of the messages with the wanted columns, some messages at a time; a chunk is good until the next."""
    names = [name.encode() for name in wanted]
    joined_names = np.frombuffer(b"".join(names) + b"\0", np.uint8)
    bounds = np.cumsum([0, *map(len, names)])
    kinds = np.array([KINDS[layout.fields[name]] for name in wanted], np.int64)
    stack = np.empty(LEVELS - 1, np.uint8)  # what is inside an object

    def read(joined: bytes, ends: Ints, room: Room) -> Read:
        data = np.frombuffer(joined, np.uint8).copy()
        good, bad, slowly = read_objects(data, joined_names, bounds, kinds, stack, *room)
        return Read(good, bad, slowly, data)

    return text_chunks(read, layout, wanted, messages, dead)
