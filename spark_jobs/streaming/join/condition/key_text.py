"""Reads a key as a person writes it: the values of the columns that the condition computes the key from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import without_nan
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidKeyError
from springline.spark_jobs.streaming.join.wire import JoinSide
from springline.spark_jobs.streaming.sources.chunk import TextColumn, array_of, column_of, column_of_texts
from springline.spark_jobs.streaming.sources.field_types import sql_type


def key_columns(condition: Condition, side: JoinSide) -> Mapping[str, str]:
    """Return the columns of a side that keys are computed from, in their declared order, each with its type."""
    own, used = condition.names.of(side), condition.join_keys.names(side)
    return {name: kind for name, kind in own.fields.items() if own.full_name(name) in used}


def key_of_texts(condition: Condition, side: JoinSide, texts: Sequence[str]) -> int:
    """Return the 64-bit key of a row of a side whose key columns have these values; raises `InvalidKeyError`."""
    columns = key_columns(condition, side)
    expected = ", ".join(f"{name} ({kind})" for name, kind in columns.items())
    if len(texts) != len(columns):
        raise InvalidKeyError(
            f"{len(texts)} values for a key of {len(columns)}: write the {side.name.lower()} {expected}"
        )
    own = condition.names.of(side)
    values = {own.full_name(name): _typed(name, text, columns[name]) for name, text in zip(columns, texts, strict=True)}
    keys, valid = condition.join_keys.of(side, values, 1)
    if not valid[0]:
        raise InvalidKeyError(f"a row with {', '.join(texts)} has no key: NULL and NaN match nothing")
    return int(keys[0])


def _typed(name: str, text: str, kind: str) -> pa.Array:
    texts = column_of(pa.array([text]))
    assert isinstance(texts, TextColumn)
    column, good = column_of_texts(texts, kind)
    if not good.all():
        raise InvalidKeyError(f"{text!r} is no value of the column {name}, which has the type {kind}")
    return without_nan(array_of(column, sql_type(kind)))
