"""Partials: the aggregates of groups in a slice, as Arrow record batches; their order, and how they are merged.

    slice   int64        start of the slice, in microseconds
    hash    uint64       of the group's keys: determines its unit, and its position among the groups of its slice
    k0, …                the keys
    rows(), sum(x), …    the measures

A batch is sorted by slice; what was merged, and so the groups of a window, is also sorted by hash. Two groups with the
same hash, which are 2 in 10^13 pairs at random, are distinguished by their keys, which is slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Codes, Ints, NumberTable, UInt64s
from springline.spark_jobs.streaming.kernels.hashing import hash_parts, same_texts
from springline.spark_jobs.streaming.kernels.sums import (
    add_integers_in_pairs,
    add_sums,
    add_sums_in_pairs,
    keep_max,
    keep_min,
)
from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.aggregation.accumulators import neutral_value
from springline.spark_jobs.streaming.windows.aggregation.sketches import EMPTY, unions
from springline.spark_jobs.streaming.windows.measures import Measure, remainder_column

_SEED = np.uint64(0x2545F4914F6CDD1D)


def partial_schema(keys: Sequence[Expression], measures: Sequence[Measure]) -> pa.Schema:
    """Return the schema of a cube's partials."""
    fields = [pa.field("slice", pa.int64()), pa.field("hash", pa.uint64())]
    fields += [pa.field(f"k{index}", arrow_type(key.type)) for index, key in enumerate(keys)]
    return pa.schema(fields + [field for measure in measures for field in measure.fields])


def hashes_of(count: int, parts: Sequence[UInt64s]) -> UInt64s:
    """Return the hash of each of `count` groups, combined from the hashes of its keys."""
    hashes = np.full(count, _SEED, np.uint64)
    for part in parts:
        hash_parts(hashes, part)
    return hashes


def units_of(hashes: UInt64s, units: int) -> Ints:
    """Return the downstream unit of each group."""
    return ((hashes >> np.uint64(32)) % np.uint64(units)).view(np.int64)


def sort_order(slices: Ints, hashes: UInt64s, places: Ints | None = None) -> Ints:
    """Return the order by downstream unit, slice and hash; rows that are equal in all three keep their order.

    `places` has the unit of each row, if there are several.
    """
    major = slice_ranks(slices)
    if places is not None:
        count = int(major.max(initial=0)) + 1
        major = _narrow_ranks(major + count * places, count * (int(places.max(initial=0)) + 1))
    for kind in ("quicksort", "stable"):
        order = np.argsort(hashes, kind=kind)  # type: ignore[call-overload]
        if major.any():
            order = order[np.argsort(major[order], kind="stable")]
        same = (hashes[order][1:] == hashes[order][:-1]) & (major[order][1:] == major[order][:-1])
        if not same.any():
            break
    return np.asarray(order)


def slice_ranks(slices: Ints) -> npt.NDArray[Any]:
    """Return the rank of each row's slice among the slices, in a narrow type, which numpy sorts faster."""
    table = NumberTable()
    codes = table.codes(slices)
    ranks = np.argsort(np.argsort(table.numbers()[1:]))
    return _narrow_ranks(ranks, len(table))[codes - 1]


def _narrow_ranks(ranks: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    return ranks.astype(np.uint16 if count < 1 << 16 else np.int64)


def column_values(batch: pa.RecordBatch | pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as a numpy array."""
    array = batch.column(name)
    return np.asarray(array.to_numpy() if isinstance(array, pa.ChunkedArray) else array.to_numpy(zero_copy_only=False))


def merge(batches: Sequence[pa.RecordBatch], into: int | None = None) -> pa.RecordBatch | None:
    """Merge batches of partials of one cube, all into the slice `into` if it is given; None if there are no partials.

    A measure that only some of the batches have takes its neutral value in the others.
    """
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return None
    if len(batches) == 1 and into is None:
        return batches[0]
    table = pa.Table.from_batches(_with_same_columns(batches)).combine_chunks()
    if into is not None:
        table = table.set_column(0, "slice", pa.array(np.full(table.num_rows, into)))
    return combine_partials(table)


def combine_partials(table: pa.Table) -> pa.RecordBatch:
    """Merge the partials of one cube, in any order, so that each group has one row per slice."""
    slices, hashes = column_values(table, "slice"), column_values(table, "hash")
    order = sort_order(slices, hashes)
    fresh = _changes(slices[order]) | _changes(hashes[order])
    keys = [name for name in table.column_names if is_key(name)]
    if not fresh.all() and not _same_keys(table, keys, order, fresh):
        order, fresh = _by_keys(table, keys)
    begins = np.flatnonzero(fresh)
    firsts = pa.array(order[begins])
    groups = None
    if not fresh.all():
        groups = np.empty(order.size, np.int32)
        groups[order] = np.cumsum(fresh)
    arrays: dict[str, Any] = {name: table.column(name).take(firsts) for name in ("slice", "hash", *keys)}
    measured = [name for name in table.column_names if name not in arrays]
    if groups is None:
        arrays |= {name: table.column(name).take(firsts) for name in measured}
    else:
        arrays |= accumulate_measures(
            {name: table.column(name) for name in measured}, groups, begins.size, (order, begins)
        )
    columns = [_as_array(arrays[name]) for name in table.column_names]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_metadata(None) for f in table.schema]))


def accumulate_measures(
    measures: Mapping[str, Any], groups: Codes, count: int, order: tuple[Ints, Ints] | None = None
) -> dict[str, Any]:
    """Merge the measures of rows into `count` groups, numbered from 1.

    `groups` has the group of each row; rows with a negative group are skipped.
    `order` (rows by group, and the start of each group in it) is computed if it is needed and not given.
    """
    sums: dict[str, Any] = {}
    for name, values in measures.items():
        if name.startswith("distinct("):
            rows, begins = order or _by_group(groups)
            sketches = values.take(pa.array(rows)).to_pylist() if hasattr(values, "take") else [values[r] for r in rows]
            sums[name] = unions(sketches, begins)
            continue
        if name in sums:  # the remainder of a sum, merged together with the sum
            continue
        array = np.asarray(values)
        into = np.full(count + 1, neutral_value(name, array.dtype), array.dtype)
        if name.startswith("min("):
            keep_min(groups, array, EVERYWHERE, into)
        elif name.startswith("max("):
            keep_max(groups, array, EVERYWHERE, into)
        elif remainder_column(name) in measures:
            remainders = np.zeros(count + 1, array.dtype)
            add_pairs = add_integers_in_pairs if array.dtype == np.int64 else add_sums_in_pairs
            add_pairs(groups, array, EVERYWHERE, into, remainders)
            add_sums(groups, np.asarray(measures[remainder_column(name)]), EVERYWHERE, remainders)
            sums[remainder_column(name)] = remainders[1:]
        else:
            add_sums(groups, array, EVERYWHERE, into)
        sums[name] = into[1:]
    return sums


def _by_group(groups: Codes) -> tuple[Ints, Ints]:
    order = np.argsort(groups, kind="stable")
    order = order[np.searchsorted(groups[order], 0) :]
    return order, np.flatnonzero(_changes(groups[order]))


def is_key(name: str) -> bool:
    """Return whether a column of partials is one that distinguishes groups of a slice."""
    return name[0] == "k" and name[1:].isdecimal()


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the previous one."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _same_keys(table: pa.Table, keys: Sequence[str], order: Ints, fresh: npt.NDArray[np.bool_]) -> bool:
    """Return whether rows with the same slice and hash have the same keys."""
    begins = np.flatnonzero(fresh)
    repeats = np.flatnonzero(~fresh)
    first = order[begins[np.cumsum(fresh)[repeats] - 1]]
    return all(_same(table.column(name), order[repeats], first) for name in keys)


def _same(column: pa.ChunkedArray, rows: Ints, others: Ints) -> bool:
    """Return whether each of some rows has the same key as its counterpart in `others`."""
    array = _as_array(column)
    if pa.types.is_string(array.type) and not array.null_count and array.buffers()[2] is not None:
        ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset :]
        return bool(same_texts(np.frombuffer(array.buffers()[2], np.uint8), ends, rows, others))
    one, other = array.take(pa.array(rows)), array.take(pa.array(others))
    same = pc.fill_null(pc.equal(one, other), False)
    return bool(pc.all(pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other)))).as_py() is not False)


def _by_keys(table: pa.Table, keys: Sequence[str]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the order by slice, hash and keys, and where groups start in it."""
    by = [(name, "ascending") for name in ("slice", "hash", *keys)]
    order = pc.sort_indices(table, sort_keys=by).to_numpy()
    fresh = np.zeros(order.size, np.bool_)
    for name in ("slice", "hash", *keys):
        coded = pc.dictionary_encode(table.column(name).combine_chunks(), null_encoding="encode")
        codes = coded.chunk(0).indices if isinstance(coded, pa.ChunkedArray) else coded.indices
        fresh |= _changes(np.asarray(codes)[order])
    return order, fresh


def _with_same_columns(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the batches with the same columns in the same order."""
    plain = [batch.replace_schema_metadata(None) for batch in batches]
    fields: dict[str, pa.Field] = {field.name: field for batch in reversed(plain) for field in batch.schema}
    if all(batch.schema.names == plain[0].schema.names for batch in plain):
        return plain
    fixed = [name for name in fields if name in ("slice", "hash") or is_key(name)]
    names = sorted(fixed, key=lambda n: (n != "slice", n != "hash", len(n), n))
    names += sorted((name for name in fields if name not in names), key=lambda name: (name != "rows()", name))
    schema = pa.schema([fields[name] for name in names])
    return [
        pa.RecordBatch.from_arrays(
            [
                batch.column(f.name) if f.name in batch.schema.names else _neutral_array(f, batch.num_rows)
                for f in schema
            ],
            schema=schema,
        )
        for batch in plain
    ]


def _neutral_array(field: pa.Field, rows: int) -> pa.Array:
    if pa.types.is_binary(field.type):
        return pa.array([EMPTY] * rows, pa.binary())
    kind = np.int64 if field.type == pa.int64() else np.float64
    return pa.array(np.full(rows, neutral_value(field.name, kind), kind))


def _as_array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return pa.array(values, pa.binary()) if isinstance(values, list) else pa.array(values)
