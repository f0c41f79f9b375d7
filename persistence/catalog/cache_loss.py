"""What a loss of the whole cache would cost, worked out on keys and few columns: quick among very many datasets.

It says what `recovery.at_risk` says of the same catalog, which it is compared with in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.records import sliced
from springline.persistence.catalog.schema import generation, operation, source
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.dataset import Side
from springline.persistence.model.lineage import postorder

_MOST_CAUSES = 10  # that are told of one generation
_upstream = generation.alias("upstream")
_OPEN = and_(_upstream.c.phase == "open", _upstream.c.cache == "present")  # its writer sees to it
_AT_HAND = or_(and_(_upstream.c.phase.in_(("open", "committed")), _upstream.c.under == "present"), _OPEN)


class Bare(NamedTuple):
    """What counts of a generation that would have to be made again."""

    bytes: int
    exposed: bool  # committed, and its only bytes are in the cache
    repeatable: bool  # its operation may be run to make it again, if its sources are there
    proven: bool  # and it was seen to repeat its digest
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
        return self._first(lambda row: not row.repeatable)

    @cached_property
    def doubts(self) -> Mapping[int, tuple[int, ...]]:
        """Of each that can be made again, the first upstream whose operation was never seen to repeat, ten at most."""
        found = self._first(lambda row: not row.proven)
        return {key: () if self.causes[key] else doubts for key, doubts in found.items()}

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

    def _first(self, objects: Callable[[Bare], bool]) -> dict[int, tuple[int, ...]]:
        """By key, itself if `objects`, else the first generations of which that is true upstream, ten at most."""
        known: dict[int, tuple[int, ...]] = {}
        for key in postorder(self.exposed, self._needs):
            if objects(self.rows[key]):
                known[key] = (key,)
                continue
            inherited = [known[need] for need in self._needs(key) if known[need]]
            if len(inherited) > 1:
                merged = dict.fromkeys(first for found in inherited for first in found)
                known[key] = tuple(merged)[:_MOST_CAUSES]
            else:
                known[key] = inherited[0] if inherited else ()
        return known

    def _needs(self, key: int) -> Sequence[int]:
        return self.needs.get(key, ())


def loss_from(connection: Connection, *, away: bool = False) -> CacheLoss:
    """What a loss of the cache would touch, as the catalog has it in one transaction.

    While the under-store is `away`, its copies count for nothing: what has one is exposed if it is in the cache.
    """
    repeatable = and_(operation.c.idempotent, operation.c.runnable, not_(operation.c.unmasked))
    query = select(operation.c.name, operation.c.version, operation.c.repeats).where(repeatable)
    known = {(name, version): repeats > 0 for name, version, repeats in connection.execute(query)}
    rows: dict[int, Bare] = {}
    needs: dict[int, list[int]] = {}
    exposed = or_(schema.unsettled, and_(schema.committed, schema.in_cache)) if away else schema.unsettled
    _take(connection, exposed, known, rows, needs, away)
    while missing := {need for found in needs.values() for need in found} - rows.keys():
        for part in sliced(sorted(missing)):
            _take(connection, generation.c.id.in_(part), known, rows, needs, away)
    untimed = [key for key, row in rows.items() if row.made_seconds is None and row.operation]
    return CacheLoss(rows, needs, _source_bytes(connection, untimed))


def _take(
    connection: Connection,
    which: ColumnElement[bool],
    repeatable: Mapping[tuple[str, str], bool],
    rows: dict[int, Bare],
    needs: dict[int, list[int]],
    away: bool,
) -> None:
    """Add those generations to `rows`, and to `needs` what each would need that is not at hand.

    `repeatable`: the operations that may be run again, and whether each was seen to repeat.
    """
    table = generation.c
    columns = (
        table.id, table.bytes, table.phase, table.cache, table.under, table.operation, table.version,
        table.made_seconds, table.dag_id,
    )  # fmt: skip
    for key, size, phase, cache, under, name, version, seconds, dag_id in connection.execute(
        select(*columns).where(which).order_by(table.id)
    ):
        exposed = phase == "committed" and cache == "present" and (away or under != "present")
        alive = phase in ("open", "committed")
        proven = repeatable.get((name, version)) if alive else None
        rows[key] = Bare(size, exposed, proven is not None, bool(proven), name or "", seconds, dag_id)
    edges = (
        select(table.id, source.c.source_id)
        .join(source, source.c.generation_id == table.id)
        .join(_upstream, _upstream.c.id == source.c.source_id)
        .where(which, not_(_OPEN if away else _AT_HAND))
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
