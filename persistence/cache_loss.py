"""What a loss of the whole cache would cost, worked out on keys and few columns: quick among very many datasets.

It says what `recovery.at_risk` says of the same catalog, which it is compared with in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select

from persistence import schema
from persistence.history import Costs
from persistence.lineage import postorder
from persistence.model import Side
from persistence.records import sliced
from persistence.schema import generation, operation, source

_MOST_CAUSES = 10  # that are told of one generation
_upstream = generation.alias("upstream")
_AT_HAND = or_(
    and_(_upstream.c.phase.in_(("open", "committed")), _upstream.c.under == "present"),
    and_(_upstream.c.phase == "open", _upstream.c.cache == "present"),  # its writer sees to it
)


class Bare(NamedTuple):
    """What counts of a generation that would have to be made again."""

    bytes: int
    exposed: bool  # committed, and its only bytes are in the cache
    repeatable: bool  # its operation may be relied on to make it again, if its sources are there
    operation: str
    made_seconds: float | None
    dag_id: str


@dataclass(frozen=True)
class CacheLoss:
    """All that a loss of the cache would touch, by key.

    `needs`: the sources of each that would have to be made again before it. `source_bytes`: of those whose time was
    never taken.
    """

    rows: Mapping[int, Bare]
    needs: Mapping[int, Sequence[int]]
    source_bytes: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def exposed(self) -> list[int]:
        """The committed generations whose only bytes are in the cache."""
        return [key for key, row in self.rows.items() if row.exposed]

    @cached_property
    def causes(self) -> Mapping[int, tuple[int, ...]]:
        """The first generations upstream of each that nothing makes again, ten at most; none: it can be made again."""
        known: dict[int, tuple[int, ...]] = {}
        for key in postorder(self.exposed, self._needs):
            if not self.rows[key].repeatable:
                known[key] = (key,)
                continue
            inherited = [known[need] for need in self._needs(key) if known[need]]
            if len(inherited) > 1:
                merged = dict.fromkeys(cause for causes in inherited for cause in causes)
                known[key] = tuple(merged)[:_MOST_CAUSES]
            else:
                known[key] = inherited[0] if inherited else ()
        return known

    @property
    def unmeasured(self) -> frozenset[str]:
        """The operations whose history tells how long something takes that was never timed itself."""
        return frozenset(self.rows[key].operation for key in self.source_bytes)

    def again(self, keys: Iterable[int]) -> list[int]:
        """What would be run to have `keys` again, in order; those that cannot come back are left out."""
        return list(postorder((key for key in keys if not self.causes[key]), self._needs))

    def seconds(self, key: int, costs: Costs) -> float | None:
        """How long running one again takes: as long as when it was made, else by history; None: never measured."""
        row = self.rows[key]
        if row.made_seconds is not None or not row.operation:
            return row.made_seconds
        predicted = costs.run(row.operation, Side.CACHE, self.source_bytes.get(key, 0))
        return predicted.seconds if predicted else None

    def _needs(self, key: int) -> Sequence[int]:
        return self.needs.get(key, ())


def loss_from(connection: Connection) -> CacheLoss:
    """What a loss of the cache would touch, as the catalog has it in one transaction."""
    repeatable = and_(operation.c.idempotent, operation.c.runnable, not_(operation.c.unmasked))
    query = select(operation.c.name, operation.c.version).where(repeatable)
    known = frozenset((name, version) for name, version in connection.execute(query))
    rows: dict[int, Bare] = {}
    needs: dict[int, list[int]] = {}
    _take(connection, schema.unsettled, known, rows, needs)
    while missing := {need for found in needs.values() for need in found} - rows.keys():
        for part in sliced(sorted(missing)):
            _take(connection, generation.c.id.in_(part), known, rows, needs)
    untimed = [key for key, row in rows.items() if row.made_seconds is None and row.operation]
    return CacheLoss(rows, needs, _source_bytes(connection, untimed))


def _take(
    connection: Connection,
    which: ColumnElement[bool],
    repeatable: frozenset[tuple[str, str]],
    rows: dict[int, Bare],
    needs: dict[int, list[int]],
) -> None:
    """Add those generations to `rows`, and to `needs` what each would need that is not at hand."""
    table = generation.c
    columns = (
        table.id, table.bytes, table.phase, table.cache, table.under, table.operation, table.version,
        table.made_seconds, table.dag_id,
    )  # fmt: skip
    for key, size, phase, cache, under, name, version, seconds, dag_id in connection.execute(
        select(*columns).where(which).order_by(table.id)
    ):
        exposed = phase == "committed" and cache == "present" and under != "present"
        alive = phase in ("open", "committed")
        rows[key] = Bare(size, exposed, alive and (name, version) in repeatable, name or "", seconds, dag_id)
    edges = (
        select(table.id, source.c.source_id)
        .join(source, source.c.generation_id == table.id)
        .join(_upstream, _upstream.c.id == source.c.source_id)
        .where(which, not_(_AT_HAND))
        .order_by(table.id, source.c.position)  # ordered by the source's column, SQLite would look through them all
    )
    for key, need in connection.execute(edges):
        needs.setdefault(key, []).append(need)


def _source_bytes(connection: Connection, keys: Sequence[int]) -> dict[int, int]:
    """The bytes of all sources of each of `keys`."""
    found = dict.fromkeys(keys, 0)
    for part in sliced(keys):
        summed = (
            select(source.c.generation_id, func.sum(_upstream.c.bytes))
            .join(_upstream, _upstream.c.id == source.c.source_id)
            .where(source.c.generation_id.in_(part))
            .group_by(source.c.generation_id)
        )
        found.update({key: int(size) for key, size in connection.execute(summed)})
    return found
