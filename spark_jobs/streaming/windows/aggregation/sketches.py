"""Sketches that estimate numbers of distinct values: Theta sketches of Apache DataSketches, serialized.

A Theta sketch holds the smallest hashes of the values that it has seen, so the result of a union does not depend on the
order of values, rows and slices. Exact up to 2,048 values; above that, one standard deviation is 2.2 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.sources.field_types import stored

LG_VALUES = 11


def sketches_of(groups: Ints, codes: Ints, values: pa.Array, count: int) -> list[bytes]:
    """Return a sketch for each of `count` groups, from distinct pairs (group, code of a value)."""
    sketches = [EMPTY] * count
    order = np.lexsort((codes, groups))
    value_list = (values if pa.types.is_binary(values.type) else stored(values)).to_pylist()
    bounds = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    ordered, which = codes[order].tolist(), groups[order].tolist()
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        sketch = update_theta_sketch(LG_VALUES)
        for code in ordered[begin:end]:
            value = value_list[code]
            value = value.hex() if isinstance(value, bytes) else value
            sketch.update(f"={value}" if isinstance(value, str) else value)  # update() ignores an empty text
        sketch.trim()
        sketches[which[begin]] = sketch.compact().serialize()
    return sketches


def union(sketches: Iterable[bytes]) -> bytes:
    """Return the union of some sketches."""
    merged_sketch = theta_union(LG_VALUES)
    for sketch in sketches:
        merged_sketch.update(compact_theta_sketch.deserialize(sketch))
    return bytes(merged_sketch.get_result().serialize())


def unions(sketches: Sequence[bytes], begins: Ints) -> list[bytes]:
    """Return the union of each section of `sketches`; `begins` has the start of each section."""
    ends = [*begins[1:].tolist(), len(sketches)]
    return [
        sketches[begin] if end - begin == 1 else union(sketches[begin:end])
        for begin, end in zip(begins.tolist(), ends, strict=True)
    ]


def estimate(sketch: bytes) -> int:
    """Return the estimated number of distinct values, rounded."""
    distinct_count: int = round(compact_theta_sketch.deserialize(sketch).get_estimate())
    return distinct_count


EMPTY = bytes(update_theta_sketch(LG_VALUES).compact().serialize())
