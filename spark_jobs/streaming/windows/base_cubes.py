"""Base cubes: the finest cube of several, which mappers send in their place and reducers roll up to them.

In OLAP this is the base cuboid. A base has the keys of its members, the narrowest of their slices, and for each group
the set of the members' filters that it passes, as bits. Members have the same keys, since a group's keys determine its
reducer; the same lateness; and slices that are multiples of those of the base.

Cost rule: a base never sends many more partials than its members would. A filter over keys alone splits no group. Of m
other filters, a group passes at most 2^m combinations, one less if every member has a filter; each member would send
the group once per slice of its own, which is width / own width per slice of the base. Cubes join a base only while the
combinations are at most the sum of those shares, so that no distribution of values makes the base the larger choice
unless filters are selective, and then few combinations occur. The rule needs no measured values: stages choose the same
bases for the same queries, and a base changes only when queries do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import xxhash

from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.multi_query import Cube, is_filter_derivable

MAX_FILTERS = 30  # bits of a 32-bit integer


@dataclass(frozen=True)
class BaseCube(Cube):
    """A cube that is sent in place of its `members`; `where` is the filter that all of them have, if there is one."""

    members: tuple[Cube, ...] = ()

    @property
    def filters(self) -> tuple[Expression, ...]:
        """The filters of which a group has a bit each; none if all members have the same."""
        if self.where is not None:
            return ()
        filters = {member.where.sql: member.where for member in self.members if member.where is not None}
        return tuple(filters[sql] for sql in sorted(filters))

    @property
    def grouping_columns(self) -> tuple[Expression, ...]:
        """The keys, and the filters that cannot be derived from them."""
        columns = {column for member in self.members for column in member.grouping_columns if column not in self.keys}
        return (*self.keys, *sorted(columns, key=lambda column: column.sql))

    def bit(self, member: Cube) -> int:
        """Return the bit of a member's filter; -1 if the member takes every group."""
        return -1 if member.where is None or self.where is not None else self.filters.index(member.where)


def with_bases(cubes: Sequence[Cube]) -> tuple[Cube, ...]:
    """Return the cubes that are sent: bases, and the cubes without one; sorted by id."""
    sent: list[Cube] = [cube for cube in cubes if not cube.width]
    families: dict[tuple[tuple[Expression, ...], int], list[Cube]] = {}
    for cube in sorted(cubes, key=lambda cube: (cube.width, cube.phase, cube.id)):
        if cube.width:
            families.setdefault((cube.keys, cube.lateness), []).append(cube)
    for family in families.values():
        left = family
        while left:
            members = _members(left)
            sent.append(_base_of(members) if len(members) > 1 else members[0])
            left = [cube for cube in left if cube not in members]
    return tuple(sorted(sent, key=lambda cube: cube.id))


def _members(family: Sequence[Cube]) -> list[Cube]:
    """Return the cubes that join the base of the first one, which has the narrowest slices."""
    first = family[0]
    aligned = [cube for cube in family if cube.width % first.width == 0 and cube.phase % first.width == first.phase]
    members = [cube for cube in aligned if cube.where == first.where]
    for sql in sorted({_filter_sql(cube) for cube in aligned if cube not in members}):  # that of no filter is the first
        more = [cube for cube in aligned if _filter_sql(cube) == sql]
        if _pays([*members, *more]):
            members += more
    return members


def _filter_sql(cube: Cube) -> str:
    """Return the SQL of a cube's filter; empty without one."""
    return "" if cube.where is None else cube.where.sql


def _pays(members: Sequence[Cube]) -> bool:
    """Return whether a base sends at most as many partials as its members, by the rule above."""
    filters = {member.where for member in members}
    split = {where for member in members if (where := member.where) and not _splits_no_group(member)}
    combinations = 2 ** len(split) - all(member.where is not None for member in members)
    width = min(member.width for member in members)
    shares = sum(Fraction(width, member.width) for member in members)  # exact, whatever the order of members
    return len(filters) == 1 or (len(filters) <= MAX_FILTERS and combinations <= shares)


def _splits_no_group(member: Cube) -> bool:
    return member.where in member.keys or is_filter_derivable(member, member.keys)


def _base_of(members: Iterable[Cube]) -> BaseCube:
    ordered = tuple(sorted(members, key=lambda cube: cube.id))
    narrowest = min(ordered, key=lambda cube: (cube.width, cube.phase, cube.id))
    measures = {measure.name: measure for member in ordered for measure in member.measures}
    filters = {member.where for member in ordered}
    queries = sorted({query for member in ordered for query in member.queries})
    return BaseCube(
        xxhash.xxh3_64_hexdigest(json.dumps(["base", [member.id for member in ordered]]).encode()),
        filters.pop() if len(filters) == 1 else None,
        narrowest.keys,
        narrowest.width,
        narrowest.phase,
        0,
        narrowest.lateness,
        tuple(measures[name] for name in sorted(measures, key=lambda name: (name != "rows()", name))),
        tuple(queries),
        ordered,
    )
