"""Cost of a loss of the whole cache, computed on keys and few columns to be quick for very many datasets.

The result is the same as that of `recovery.assess_risk` for the same catalog; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.records import chunks_of
from springline.persistence.catalog.schema import generation, operation, source
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import ExecutionSide
from springline.persistence.model.lineage import postorder

_MAX_CAUSES = 10  # causes reported per generation
_MAX_DEPENDENTS = 1000  # visited to count those of one generation
_upstream = generation.alias("upstream")
_IS_OPEN = and_(_upstream.c.phase == "open", _upstream.c.cache == "present")  # its writer handles its loss
_IS_AVAILABLE = or_(and_(_upstream.c.phase.in_(("open", "committed")), _upstream.c.under == "present"), _IS_OPEN)


class UnpersistedRow(NamedTuple):
    """The columns of a generation to be recomputed that the cost depends on."""

    bytes: int
    exposed: bool  # committed, and its only bytes are in the cache
    repeatable: bool  # its operation may be re-run to recompute it, if its sources are available
    proven: bool  # and a second run has repeated its digest
    operation: str
    compute_seconds: float | None
    dag_id: str


@dataclass(frozen=True)
class CacheLoss:
    """Everything that a loss of the cache would affect, by key.

    `needs`: the sources of each generation that would have to be recomputed before it. `source_bytes`: bytes of the
    sources, for generations without a measured time.
    """

    rows: Mapping[int, UnpersistedRow]
    needs: Mapping[int, Sequence[int]]
    source_bytes: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def exposed(self) -> list[int]:
        """The committed generations whose only bytes are in the cache."""
        return [key for key, row in self.rows.items() if row.exposed]

    @cached_property
    def causes(self) -> Mapping[int, tuple[int, ...]]:
        """The nearest non-recomputable ancestors of each generation, at most ten; empty if it can be recomputed."""
        return self._first_upstream(lambda row: not row.repeatable)

    @cached_property
    def unproven_causes(self) -> Mapping[int, tuple[int, ...]]:
        """For each recomputable generation the nearest ancestors with an unproven operation, at most ten."""
        unproven = self._first_upstream(lambda row: not row.proven)
        return {key: () if self.causes[key] else doubts for key, doubts in unproven.items()}

    @property
    def unmeasured_operations(self) -> frozenset[str]:
        """The operations whose history predicts the time of generations without a measured time."""
        return frozenset(self.rows[key].operation for key in self.source_bytes)

    @cached_property
    def reruns(self) -> Sequence[int]:
        """The generations to re-run to recompute all exposed ones, in order; irrecoverable ones are left out."""
        return list(postorder((key for key in self.exposed if not self.causes[key]), self._needs))

    def exposed_dependents(self, key: int) -> list[int]:
        """Return the exposed generations that recomputing requires `key` for, directly or not, at most 1,000."""
        visited, frontier = {key: None}, [key]
        while frontier and len(visited) <= _MAX_DEPENDENTS:
            new = [reader for reader in self._readers.get(frontier.pop(), ()) if reader not in visited]
            visited |= dict.fromkeys(new)
            frontier += new
        return [reader for reader in visited if reader != key and self.rows[reader].exposed][:_MAX_DEPENDENTS]

    def predict_seconds(self, key: int, costs: CostModel) -> float | None:
        """Predict the seconds to recompute one: as when it was made, else from history; None if never measured."""
        row = self.rows[key]
        if row.compute_seconds is not None or not row.operation:
            return row.compute_seconds
        predicted = costs.predict_run(row.operation, ExecutionSide.CACHE, self.source_bytes.get(key, 0))
        return predicted.seconds if predicted else None

    def _first_upstream(self, is_cause: Callable[[UnpersistedRow], bool]) -> dict[int, tuple[int, ...]]:
        """Map each key to itself if `is_cause` is true, else to the nearest ancestors of which it is, at most ten."""
        causes_by_key: dict[int, tuple[int, ...]] = {}
        for key in postorder(self.exposed, self._needs):
            if is_cause(self.rows[key]):
                causes_by_key[key] = (key,)
                continue
            inherited = [causes_by_key[need] for need in self._needs(key) if causes_by_key[need]]
            if len(inherited) > 1:
                merged = dict.fromkeys(first for keys in inherited for first in keys)
                causes_by_key[key] = tuple(merged)[:_MAX_CAUSES]
            else:
                causes_by_key[key] = inherited[0] if inherited else ()
        return causes_by_key

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        readers: dict[int, list[int]] = {}
        for key, needs in self.needs.items():
            for need in needs:
                readers.setdefault(need, []).append(key)
        return readers

    def _needs(self, key: int) -> Sequence[int]:
        return self.needs.get(key, ())


def load_cache_loss(connection: Connection, *, ignore_under_store: bool = False) -> CacheLoss:
    """Load what a loss of the cache would affect, in one transaction.

    With `ignore_under_store`, copies in the under-store do not count: a generation with such a copy is exposed if it is
    in the cache.
    """
    repeatable = and_(operation.c.idempotent, operation.c.runnable, not_(operation.c.nondeterministic))
    query = select(operation.c.name, operation.c.version, operation.c.repeats).where(repeatable)
    proven_by_operation = {(name, version): repeats > 0 for name, version, repeats in connection.execute(query)}
    rows: dict[int, UnpersistedRow] = {}
    needs: dict[int, list[int]] = {}
    exposed = (
        or_(schema.is_unpersisted, and_(schema.is_committed, schema.is_cached))
        if ignore_under_store
        else schema.is_unpersisted
    )
    _add_rows(connection, exposed, proven_by_operation, rows, needs, ignore_under_store)
    while missing := {need for sources in needs.values() for need in sources} - rows.keys():
        for part in chunks_of(sorted(missing)):
            _add_rows(connection, generation.c.id.in_(part), proven_by_operation, rows, needs, ignore_under_store)
    untimed = [key for key, row in rows.items() if row.compute_seconds is None and row.operation]
    return CacheLoss(rows, needs, _source_bytes(connection, untimed))


def _add_rows(
    connection: Connection,
    which: ColumnElement[bool],
    repeatable: Mapping[tuple[str, str], bool],
    rows: dict[int, UnpersistedRow],
    needs: dict[int, list[int]],
    ignore_under_store: bool,
) -> None:
    """Add the generations `which` to `rows`, and the unavailable sources of each to `needs`.

    `repeatable`: the operations that may be re-run, and whether each is proven.
    """
    table = generation.c
    columns = (
        table.id, table.bytes, table.phase, table.cache, table.under, table.operation, table.version,
        table.compute_seconds, table.dag_id,
    )  # fmt: skip
    for key, size, phase, cache, under, name, version, seconds, dag_id in connection.execute(
        select(*columns).where(which).order_by(table.id)
    ):
        exposed = phase == "committed" and cache == "present" and (ignore_under_store or under != "present")
        alive = phase in ("open", "committed")
        proven = repeatable.get((name, version)) if alive else None
        rows[key] = UnpersistedRow(size, exposed, proven is not None, bool(proven), name or "", seconds, dag_id)
    edges = (
        select(table.id, source.c.source_id)
        .join(source, source.c.generation_id == table.id)
        .join(_upstream, _upstream.c.id == source.c.source_id)
        .where(which, not_(_IS_OPEN if ignore_under_store else _IS_AVAILABLE))
        .order_by(table.id, source.c.position)  # ordered by the column of `source`, SQLite would scan the whole table
    )
    for key, need in connection.execute(edges):
        needs.setdefault(key, []).append(need)


def _source_bytes(connection: Connection, keys: Sequence[int]) -> dict[int, int]:
    """Return the total bytes of all sources of each of `keys`."""
    bytes_by_key = dict.fromkeys(keys, 0)
    for part in chunks_of(keys):
        summed = (
            select(source.c.generation_id, func.sum(_upstream.c.bytes))
            .join(_upstream, _upstream.c.id == source.c.source_id)
            .where(source.c.generation_id.in_(part))
            .group_by(source.c.generation_id)
        )
        bytes_by_key.update({key: int(size) for key, size in connection.execute(summed)})
    return bytes_by_key
