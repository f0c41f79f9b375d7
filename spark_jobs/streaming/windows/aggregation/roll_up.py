"""Roll-up: partials of a base cube to those of its members, in the reducer, when slices close.

A base's partials have one column more than those of a cube, and a hash that differs with it:

    filters  int32    bit i: the group passes the base's filter i
    hash     uint64   of the keys, and of `filters`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import (
    FILTERS,
    column_values,
    combine_partials,
    is_key,
    with_number,
)
from springline.spark_jobs.streaming.windows.base_cubes import BaseCube


@dataclass(frozen=True, slots=True)
class Member:
    """A cube that partials of a base are rolled up to; `bit` is that of its filter, -1 if it takes every group."""

    cube: str
    bit: int
    width: int
    phase: int
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class BaseLayout:
    """What a reducer needs to roll up partials of a base, also to cubes that it does not know yet."""

    width: int
    lateness: int
    members: tuple[Member, ...]

    @staticmethod
    def of(base: BaseCube) -> BaseLayout:
        """Return the layout of a base."""
        members = (
            Member(
                member.id, base.bit(member), member.width, member.phase,
                [field.name for measure in member.measures for field in measure.fields],
            )
            for member in base.members
        )  # fmt: skip
        return BaseLayout(base.width, base.lateness, tuple(members))

    def as_json(self) -> list[Any]:
        """Return the layout for a buffer's metadata, or a state."""
        members = [[each.cube, each.bit, each.width, each.phase, list(each.columns)] for each in self.members]
        return [self.width, self.lateness, members]

    @staticmethod
    def from_json(value: Sequence[Any]) -> BaseLayout:
        """Return the layout; the inverse of `as_json`."""
        width, lateness, members = value
        return BaseLayout(width, lateness, tuple(Member(*each) for each in members))

    def closed_before(self, closed: int | None) -> int | None:
        """Return the time before which slices that begin are closed; None if none are."""
        return None if closed is None else closed - self.width - self.lateness + 1


def roll_up(partials: pa.RecordBatch, member: Member) -> pa.RecordBatch | None:
    """Return the partials of a member; None if there are none."""
    columns: Mapping[str, Any] = dict(zip(partials.schema.names, partials.columns, strict=True))
    keep = None
    hashes = column_values(partials, "hash")
    if FILTERS in columns:
        filters = column_values(partials, FILTERS)
        hashes = with_number(hashes, filters)
        keep = np.flatnonzero(filters >> member.bit & 1) if member.bit >= 0 else None
    slices = (column_values(partials, "slice") - member.phase) // member.width * member.width + member.phase
    arrays = {"slice": pa.array(slices), "hash": pa.array(hashes)}
    arrays |= {name: column for name, column in columns.items() if is_key(name) and name != FILTERS}
    arrays |= {name: columns[name] for name in member.columns if name in columns}
    table = pa.table(arrays)
    if keep is not None and keep.size < table.num_rows:
        table = table.take(pa.array(keep))
    return combine_partials(table) if table.num_rows else None
