"""Sharing of work between queries: cubes of slices that answer several queries, and passes that fill several cubes.

A cube is a filter, keys, a slice width and a lateness, with every measure that one of its queries needs. Its id is a
hash of the first four and the stream's declaration, so a cube survives changes of queries that do not affect them.

One pass fills several cubes: it groups the rows by all their keys (and filters, as keys with two values) and by the
narrowest of their slices; the groups, far fewer than the rows, are then merged for each cube. This pays off while the
product of the known numbers of distinct key values stays small; these numbers are those of the unit's last round.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import xxhash

from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.sql.windowing import CountWindow
from springline.spark_jobs.streaming.windows.measures import Measure, measures_of
from springline.spark_jobs.streaming.windows.query import Query

SHARED_GROUPS = 65_536  # maximum number of groups of a shared pass


Slices = tuple[int, int, int]  # width, phase, lateness


@dataclass(frozen=True)
class Cube:
    """Slices of groups that several queries share.

    Slices of time are `width` wide. For windows of rows the width is 0, and a slice is `pane` rows.
    """

    id: str
    where: Expression | None
    keys: tuple[Expression, ...]
    width: int
    phase: int
    pane: int
    lateness: int
    measures: tuple[Measure, ...]
    queries: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[Expression, ...]:
        """The expressions that rows are grouped by: the keys, and the filter if it cannot be derived from the keys."""
        is_filter_covered = self.where is None or self.where in self.keys or is_filter_derivable(self, self.keys)
        return self.keys if is_filter_covered or self.where is None else (*self.keys, self.where)

    @property
    def slices(self) -> Slices:
        """Width, phase and lateness of the slices, which determine the rows that are late for the cube."""
        return self.width, self.phase, self.lateness


@dataclass(frozen=True)
class ScanPass:
    """One grouping of rows by slices and `columns`, for several cubes; only of rows that satisfy the condition `only`.

    The slices of each cube are multiples of the slices of the pass.
    """

    width: int
    phase: int
    columns: tuple[Expression, ...]
    only: Expression | None
    cubes: tuple[Cube, ...]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All measures of the cubes of the pass."""
        measures = {measure.name: measure for cube in self.cubes for measure in cube.measures}
        return tuple(measures[name] for name in sorted(measures))


def cube_of(query: Query, stream: Stream) -> Cube:
    """Return the cube that answers a query, with only the query's own measures."""
    window = query.window
    assert window is not None
    pane = window.pane if isinstance(window, CountWindow) else 0
    width, phase = (0, 0) if isinstance(window, CountWindow) else (window.width, window.phase)
    content = [
        stream.meaning,
        query.where.sql if query.where is not None else None,
        [key.sql for key in query.keys],
        [width, phase, pane, query.lateness],
    ]
    if pane:  # row counts do not show which rows an aggregate was added to
        content.append([measure.name for measure in measures_of(query.aggregates)])
    name = xxhash.xxh3_64_hexdigest(json.dumps(content).encode())
    measures = measures_of(query.aggregates)
    return Cube(name, query.where, query.keys, width, phase, pane, query.lateness, measures, (query.name,))


def cubes_of(queries: Iterable[Query], stream: Stream) -> tuple[Cube, ...]:
    """Return the cubes of all queries, sorted by id."""
    cubes: dict[str, Cube] = {}
    for query in queries:
        cube = cube_of(query, stream)
        shared_cube = cubes.get(cube.id, cube)
        measures = {measure.name: measure for measure in (*shared_cube.measures, *cube.measures)}
        names = sorted(measures, key=lambda name: (name != "rows()", name))
        cubes[cube.id] = replace(
            shared_cube,
            measures=tuple(measures[name] for name in names),
            queries=tuple(sorted({*shared_cube.queries, query.name})),
        )
    return tuple(cubes[name] for name in sorted(cubes))


def passes_of(cubes: Sequence[Cube], values: Mapping[str, int]) -> tuple[ScanPass, ...]:
    """Return which cubes are filled together; `values` has the known number of distinct values by expression text."""
    cube_groups: list[list[Cube]] = []
    columns: list[tuple[Expression, ...]] = []
    timed = [cube for cube in cubes if cube.width]
    for cube in sorted(
        timed, key=lambda cube: (cube.width, -len(cube.grouping_columns), cube.phase, cube.lateness, cube.id)
    ):
        for index, group in enumerate(cube_groups):
            if _slices_align(cube, group[0]) and (both := _shared_columns(columns[index], cube, values)) is not None:
                group.append(cube)
                columns[index] = both
                break
        else:
            cube_groups.append([cube])
            columns.append(cube.grouping_columns)
    return tuple(
        _push_down_filter(ScanPass(members[0].width, members[0].phase, c, None, tuple(members)))
        for c, members in zip(columns, cube_groups, strict=True)
    )


def is_filter_derivable(cube: Cube, columns: Iterable[Expression]) -> bool:
    """Return whether the cube's filter can be computed from the values of those columns."""
    plain = {column.sql for column in columns if column.columns == (column.sql,)}
    return cube.where is not None and set(cube.where.columns) <= plain


def _slices_align(cube: Cube, first: Cube) -> bool:
    """Return whether the cube's slices are multiples of the narrowest slices of a pass, those of its first cube."""
    return cube.width % first.width == 0 and cube.phase % first.width == first.phase


def _shared_columns(
    columns: tuple[Expression, ...], cube: Cube, values: Mapping[str, int]
) -> tuple[Expression, ...] | None:
    """Return the columns of a pass that also fills this cube, or None if it would have too many groups."""
    needed_columns = cube.keys if is_filter_derivable(cube, columns) else cube.grouping_columns
    more = tuple(expression for expression in needed_columns if expression not in columns)
    if not more:
        return columns
    both = columns + more
    if any(column.sql not in values and column.type != "boolean" for column in both):
        return None
    groups = math.prod(values.get(column.sql, 3) for column in both)
    return both if groups <= SHARED_GROUPS else None


def _push_down_filter(scan_pass: ScanPass) -> ScanPass:
    """Move a filter that all cubes of the pass share before the grouping, so that other rows are dropped first."""
    filters = {cube.where for cube in scan_pass.cubes}
    if len(filters) > 1 or None in filters:
        return scan_pass
    (only,) = filters
    keyed = any(only in cube.keys for cube in scan_pass.cubes)
    columns = scan_pass.columns if keyed else tuple(column for column in scan_pass.columns if column != only)
    return replace(scan_pass, columns=columns, only=only)
