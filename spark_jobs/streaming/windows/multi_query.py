"""What queries have in common: cubes of slices that several are answered from, and passes over the rows for them.

A cube is a filter, keys, a width of slices and a lateness, with every measure that one of its queries needs. Its name
follows from the first four and the stream's declaration, so it outlives changes of queries that leave them alone.

Several cubes are filled by one pass: the rows are grouped by all their keys (and filters, which are keys of two
values) and the narrowest of their slices together, and the groups, far fewer than the rows, are then added up for each
cube. That pays while the product of what is known of the keys' numbers of values stays small; the numbers are those of
the unit's last round.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import xxhash

from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.sql.windowing import Rows
from springline.spark_jobs.streaming.windows.measures import Measure, measures_of
from springline.spark_jobs.streaming.windows.query import Query

SHARED_GROUPS = 65_536  # as many groups may a shared pass have


Slices = tuple[int, int, int]  # width, phase, lateness


@dataclass(frozen=True)
class Cube:
    """Slices of groups that queries share.

    Those of time are `width` wide. For windows of rows the width is 0, and a slice is `pane` rows.
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
    def wants(self) -> tuple[Expression, ...]:
        """What rows are grouped by for it: keys, and the filter where keys do not tell."""
        known = self.where is None or self.where in self.keys or derived(self, self.keys)
        return self.keys if known or self.where is None else (*self.keys, self.where)

    @property
    def slices(self) -> Slices:
        """What its slices are like, and so which rows are late for it."""
        return self.width, self.phase, self.lateness


@dataclass(frozen=True)
class Pass:
    """One grouping of the rows by slices and `columns`, of those for which `only` holds, for some cubes.

    The slices of the cubes are whole numbers of those of the pass.
    """

    width: int
    phase: int
    columns: tuple[Expression, ...]
    only: Expression | None
    cubes: tuple[Cube, ...]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every measure that one of the cubes holds."""
        found = {measure.name: measure for cube in self.cubes for measure in cube.measures}
        return tuple(found[name] for name in sorted(found))


def cube_of(query: Query, stream: Stream) -> Cube:
    """The cube that a query is answered from, with its own measures alone."""
    window = query.window
    assert window is not None
    pane = window.pane if isinstance(window, Rows) else 0
    width, phase = (0, 0) if isinstance(window, Rows) else (window.width, window.phase)
    content = [
        stream.meaning,
        query.where.sql if query.where is not None else None,
        [key.sql for key in query.keys],
        [width, phase, pane, query.lateness],
    ]
    if pane:  # numbers of rows would not tell which of them an aggregate was added to
        content.append([measure.name for measure in measures_of(query.aggregates)])
    name = xxhash.xxh3_64_hexdigest(json.dumps(content).encode())
    measures = measures_of(query.aggregates)
    return Cube(name, query.where, query.keys, width, phase, pane, query.lateness, measures, (query.name,))


def cubes_of(queries: Iterable[Query], stream: Stream) -> tuple[Cube, ...]:
    """The cubes of all queries, sorted by name."""
    found: dict[str, Cube] = {}
    for query in queries:
        cube = cube_of(query, stream)
        known = found.get(cube.id, cube)
        measures = {measure.name: measure for measure in (*known.measures, *cube.measures)}
        names = sorted(measures, key=lambda name: (name != "rows()", name))
        found[cube.id] = replace(
            known,
            measures=tuple(measures[name] for name in names),
            queries=tuple(sorted({*known.queries, query.name})),
        )
    return tuple(found[name] for name in sorted(found))


def passes_of(cubes: Sequence[Cube], values: Mapping[str, int]) -> tuple[Pass, ...]:
    """Which cubes are filled together; `values` is how many values expressions had, by their text, where known."""
    found: list[list[Cube]] = []
    columns: list[tuple[Expression, ...]] = []
    timed = [cube for cube in cubes if cube.width]
    for cube in sorted(timed, key=lambda cube: (cube.width, -len(cube.wants), cube.phase, cube.lateness, cube.id)):
        for index, held in enumerate(found):
            if _fits(cube, held[0]) and (both := _together(columns[index], cube, values)) is not None:
                held.append(cube)
                columns[index] = both
                break
        else:
            found.append([cube])
            columns.append(cube.wants)
    return tuple(
        _narrowed(Pass(held[0].width, held[0].phase, c, None, tuple(held)))
        for c, held in zip(columns, found, strict=True)
    )


def derived(cube: Cube, columns: Iterable[Expression]) -> bool:
    """Whether the cube's filter can be told from the values of those columns."""
    plain = {column.sql for column in columns if column.columns == (column.sql,)}
    return cube.where is not None and set(cube.where.columns) <= plain


def _fits(cube: Cube, first: Cube) -> bool:
    """Whether the slices of a cube are whole numbers of the narrowest in a pass, which is the first cube's."""
    return cube.width % first.width == 0 and cube.phase % first.width == first.phase


def _together(columns: tuple[Expression, ...], cube: Cube, values: Mapping[str, int]) -> tuple[Expression, ...] | None:
    """The columns of a pass that does one more cube, or None if they have too many groups."""
    wants = cube.keys if derived(cube, columns) else cube.wants
    more = tuple(want for want in wants if want not in columns)
    if not more:
        return columns
    both = columns + more
    if any(column.sql not in values and column.type != "bool" for column in both):
        return None
    groups = math.prod(values.get(column.sql, 3) for column in both)
    return both if groups <= SHARED_GROUPS else None


def _narrowed(found: Pass) -> Pass:
    """Rows that no cube of the pass wants are left out before they are grouped."""
    filters = {cube.where for cube in found.cubes}
    if len(filters) > 1 or None in filters:
        return found
    (only,) = filters
    keyed = any(only in cube.keys for cube in found.cubes)
    columns = found.columns if keyed else tuple(column for column in found.columns if column != only)
    return replace(found, columns=columns, only=only)
