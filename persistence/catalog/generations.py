"""Queries of the catalog: single generations, filtered lists, their history, and the lineage around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypedDict, Unpack

from sqlalchemy import Select, and_, func, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.cache_loss import CacheLoss, load_cache_loss
from springline.persistence.catalog.dag_runs import is_dag_run
from springline.persistence.catalog.database import Database
from springline.persistence.catalog.lineage_query import load_lineage, operations_of
from springline.persistence.catalog.records import chunks_of, key_of, keys_of, load_datasets
from springline.persistence.catalog.schema import dag_run, generation, source
from springline.persistence.catalog.schema import transition as transitions
from springline.persistence.catalog.unverified_copies import UnverifiedCopies, count_unverified_copies
from springline.persistence.errors import NeverWrittenError, UnknownDatasetError
from springline.persistence.model.dataset import (
    CacheState,
    Dataset,
    DatasetStatus,
    Origin,
    Phase,
    Ref,
    StateChange,
    UnderStoreState,
    validate_path,
)
from springline.persistence.model.lineage import Lineage


class DatasetFilter(TypedDict, total=False):
    """Filters for generations; `limit`: 1,000 unless given.

    `dag_ids`, `run_ids`: made by one of these DAGs, in one of these DAG runs. `live`: neither retired nor abandoned.
    `search`: the path contains this text, whatever its case. `status`: what the catalog's columns say of it; whether a
    generation without any copy is irrecoverable, lost or only evicted depends on its lineage, so all three match.
    """

    path: str
    prefix: str
    search: str
    origin: Origin
    phase: Phase
    status: DatasetStatus | None
    live: bool
    superseded: bool | None
    dag_ids: Collection[str]
    run_ids: Collection[str] | None
    limit: int


class Generations(Database):
    """The read-only queries of the catalog."""

    def get(self, ref: Ref) -> Dataset:
        """Return one generation; raises `UnknownDatasetError`."""
        return self.get_all([ref])[0]

    def get_all(self, refs: Sequence[Ref]) -> list[Dataset]:
        """Return the generations in the order of `refs`; raises `UnknownDatasetError`."""
        with self.read_transaction() as connection:
            identities = keys_of(connection, refs)
            loaded = load_datasets(connection, identities)
            return [loaded[identity] for identity in identities]

    def resolve(self, path: str, origin: Origin = Origin()) -> Dataset:
        """Return the generation that a reader of `path` sees; raises `UnknownDatasetError`.

        A DAG run sees its own output, else the newest generation that was committed when it began;
        other readers see the newest committed one.
        """
        validate_path(path)
        committed = and_(generation.c.path == path, generation.c.phase == "committed")
        newest = select(generation.c.id).where(committed).order_by(generation.c.commit_number.desc()).limit(1)
        with self.read_transaction() as connection:
            key = None
            if origin.run_id:
                run = and_(generation.c.dag_id == origin.dag_id, generation.c.run_id == origin.run_id)
                key = connection.scalar(newest.where(run))
                if key is None:
                    snapshot = connection.scalar(select(dag_run.c.snapshot).where(is_dag_run(origin)))
                    bound = generation.c.commit_number <= (snapshot or 0)
                    key = connection.scalar(newest.where(bound) if snapshot is not None else newest)
            else:
                key = connection.scalar(newest)
            if key is not None:
                return load_datasets(connection, [key])[key]
        if self.find(path=path, limit=1):
            raise UnknownDatasetError(f"{path}: no committed generation" + (" for this run" if origin.run_id else ""))
        raise NeverWrittenError(path)

    def find(self, **filters: Unpack[DatasetFilter]) -> list[Dataset]:
        """Return the generations that match all given filters, newest first."""
        return self.select(_select_keys(**filters))

    def select(self, query: Select[Any]) -> list[Dataset]:
        """Return the generations whose ids `query` selects, in its order."""
        with self.read_transaction() as connection:
            identities = list(connection.scalars(query).all())
            loaded = load_datasets(connection, identities)
            return [loaded[identity] for identity in identities]

    def committed_paths(self, prefix: str = "") -> list[str]:
        """Return the sorted paths that begin with `prefix` and have a committed generation."""
        begins = func.substr(generation.c.path, 1, len(prefix)) == prefix
        query = select(generation.c.path).where(begins, generation.c.phase == "committed").distinct()
        with self.read_transaction() as connection:
            return sorted(connection.scalars(query))

    def find_existing(self, refs: Iterable[Ref]) -> list[Dataset]:
        """Return those of `refs` that are in the catalog, in no particular order."""
        requested = frozenset(refs)
        keys: list[int] = []
        with self.read_transaction() as connection:
            for paths in chunks_of(sorted({ref.path for ref in requested})):
                rows = connection.execute(select(generation).where(generation.c.path.in_(paths)))
                keys += [row.id for row in rows if Ref(row.path, row.generation) in requested]
            return list(load_datasets(connection, keys).values())

    def find_children(self, ref: Ref, limit: int = 1000) -> list[Dataset]:
        """Return the generations made directly from `ref`, newest first; raises `UnknownDatasetError`."""
        with self.read_transaction() as connection:
            key = key_of(connection, ref)
        is_child = source.c.source_id == key
        return self.select(
            select(source.c.generation_id)
            .where(is_child)
            .distinct()
            .order_by(source.c.generation_id.desc())
            .limit(limit)
        )

    def dag_ids(self) -> list[str]:
        """Return the sorted ids of the DAGs that made generations; contains "" if some were made outside of DAGs."""
        with self.read_transaction() as connection:
            return sorted(connection.scalars(select(generation.c.dag_id).distinct()).all())

    def history(self, ref: Ref | None = None, *, since: float = 0.0) -> list[StateChange]:
        """Return the changes of state of one generation, or of all, in chronological order."""
        query = (
            select(transitions, generation.c.path, generation.c.generation)
            .join(generation, generation.c.id == transitions.c.generation_id)
            .where(transitions.c.changed_at >= since)
            .order_by(transitions.c.id)
        )
        if ref is not None:
            query = query.where(generation.c.path == ref.path, generation.c.generation == ref.generation)
        with self.read_transaction() as connection:
            return [
                StateChange(
                    Ref(row.path, row.generation), row.changed_at, row.event, Phase(row.phase), CacheState(row.cache),
                    UnderStoreState(row.under), row.actor, row.reason,
                )
                for row in connection.execute(query)
            ]  # fmt: skip

    def cache_used(self) -> int:
        """Return the bytes in the cache plus those that open writes are expected to need."""
        return sum(self.cache_usage())

    def cache_usage(self) -> tuple[int, int]:
        """Return the bytes in the cache, and those that open writes are expected to need."""
        cached = select(func.coalesce(func.sum(generation.c.bytes), 0)).where(schema.is_cached)
        expected = select(func.coalesce(func.sum(generation.c.bytes), 0)).where(
            schema.is_open, generation.c.cache == "writing"
        )
        with self.read_transaction() as connection:
            return int(connection.scalar(cached) or 0), int(connection.scalar(expected) or 0)

    def largest_cached_bytes(self) -> int:
        """Return the size of the largest generation in the cache."""
        with self.read_transaction() as connection:
            return int(connection.scalar(select(func.max(generation.c.bytes)).where(schema.is_cached)) or 0)

    def count_by_phase(self) -> dict[str, int]:
        """Return how many generations are in each phase."""
        counted = select(generation.c.phase, func.count()).group_by(generation.c.phase).order_by(generation.c.phase)
        with self.read_transaction() as connection:
            return {str(phase): int(count) for phase, count in connection.execute(counted)}

    def uses_under_store(self) -> bool:
        """Whether any generation has a complete copy in the under-store."""
        used = select(generation.c.id).where(schema.is_persisted).limit(1)
        with self.read_transaction() as connection:
            return connection.scalar(used) is not None

    # ---- lineage

    def unverified_copies(self) -> UnverifiedCopies:
        """Count the copies that cannot be verified while the under-store does not respond."""
        with self.read_transaction() as connection:
            return count_unverified_copies(connection)

    def lineage_around(self, refs: Iterable[Ref], *, down: bool = True, ignore_under_store: bool = False) -> Lineage:
        """Return the part of the lineage that decisions on `refs` need; see `lineage_query.load_lineage`."""
        with self.read_transaction() as connection:
            seeds = keys_of(connection, list(refs))
            return load_lineage(connection, seeds, down=down, ignore_under_store=ignore_under_store)

    def lineage_without_sources(self, keys: Sequence[int]) -> Lineage:
        """Return a lineage of only these generations, in this order, without their ancestors."""
        with self.read_transaction() as connection:
            loaded = load_datasets(connection, keys)
            names = {dataset.call.name for dataset in loaded.values() if dataset.call}
            operations = operations_of(connection, names)
        return Lineage({loaded[key].ref: loaded[key] for key in keys}, operations)

    def cache_loss(self, *, ignore_under_store: bool = False) -> CacheLoss:
        """Return what a loss of the whole cache would affect.

        `ignore_under_store`: copies in the under-store do not count.
        """
        with self.read_transaction() as connection:
            return load_cache_loss(connection, ignore_under_store=ignore_under_store)

    def lineage_of_cache(self, *, ignore_under_store: bool = False) -> Lineage:
        """Return the lineage of all committed generations that are in the cache or not persisted.

        `ignore_under_store`: as for `cache_loss`.
        """
        is_cached_and_committed = and_(generation.c.cache == "present", generation.c.phase == "committed")
        with self.read_transaction() as connection:
            cached = connection.scalars(select(generation.c.id).where(is_cached_and_committed)).all()
            unpersisted = connection.scalars(select(generation.c.id).where(schema.is_unpersisted)).all()
            return load_lineage(
                connection, sorted({*cached, *unpersisted}), down=False, ignore_under_store=ignore_under_store
            )


def _select_keys(
    *,
    path: str = "",
    prefix: str = "",
    search: str = "",
    origin: Origin | None = None,
    phase: Phase | None = None,
    status: DatasetStatus | None = None,
    live: bool = False,
    superseded: bool | None = None,
    dag_ids: Collection[str] | None = None,
    run_ids: Collection[str] | None = None,
    limit: int = 1000,
) -> Select[Any]:
    """Select the keys of the matching generations, newest first."""
    query = select(generation.c.id).order_by(generation.c.id.desc()).limit(limit)
    if path:
        query = query.where(generation.c.path == path)
    if prefix:
        # Not LIKE, which is case-insensitive in SQLite.
        query = query.where(func.substr(generation.c.path, 1, len(prefix)) == prefix)
    if search:
        query = query.where(generation.c.path.icontains(search, autoescape=True))
    if origin:
        for column, value in (
            (generation.c.dag_id, origin.dag_id),
            (generation.c.run_id, origin.run_id),
            (generation.c.task_id, origin.task_id),
        ):
            if value:
                query = query.where(column == value)
    if phase:
        query = query.where(generation.c.phase == phase.value)
    if status:
        query = query.where(schema.may_have_status(status))
    if live:
        query = query.where(generation.c.phase.in_([Phase.OPEN.value, Phase.COMMITTED.value]))
    if superseded is not None:
        query = query.where(generation.c.superseded == superseded)
    if dag_ids is not None:
        query = query.where(generation.c.dag_id.in_(dag_ids))
    if run_ids is not None:
        query = query.where(generation.c.run_id.in_(run_ids))
    return query
