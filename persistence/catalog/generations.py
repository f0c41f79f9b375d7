"""Finds generations in the catalog: one, those that fit, what happened to them, and the lineage around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypedDict, Unpack

from sqlalchemy import Select, and_, func, select

from springline.persistence.catalog import schema
from springline.persistence.catalog.belief import Belief, belief_from
from springline.persistence.catalog.cache_loss import CacheLoss, loss_from
from springline.persistence.catalog.dag_runs import run_is
from springline.persistence.catalog.database import Database
from springline.persistence.catalog.lineage_query import lineage_from, operations_of
from springline.persistence.catalog.records import key_of, keys_of, load, sliced
from springline.persistence.catalog.schema import dag_run, generation, source
from springline.persistence.catalog.schema import transition as transitions
from springline.persistence.errors import NeverWrittenError, UnknownDatasetError
from springline.persistence.model.dataset import Cache, Dataset, Moment, Origin, Phase, Ref, Under, checked_path
from springline.persistence.model.lineage import Lineage


class Fits(TypedDict, total=False):
    """What generations are looked for by; `limit`: 1,000 unless given.

    `dag_ids`, `run_ids`: made by one of these DAGs, in one of these DAG runs. `live`: neither retired nor abandoned.
    """

    path: str
    prefix: str
    origin: Origin
    phase: Phase
    live: bool
    superseded: bool | None
    dag_ids: Collection[str]
    run_ids: Collection[str] | None
    limit: int


class Generations(Database):
    """The part of the catalog that finds generations, and changes nothing."""

    def get(self, ref: Ref) -> Dataset:
        """One generation; raises `UnknownDatasetError`."""
        return self.get_all([ref])[0]

    def get_all(self, refs: Sequence[Ref]) -> list[Dataset]:
        """The generations, in the order asked for; raises `UnknownDatasetError`."""
        with self.reading() as connection:
            identities = keys_of(connection, refs)
            loaded = load(connection, identities)
            return [loaded[identity] for identity in identities]

    def resolve(self, path: str, origin: Origin = Origin()) -> Dataset:
        """The generation that a reader of `path` sees; raises `UnknownDatasetError`.

        A DAG run sees what it made itself, else the newest that was committed when it began;
        everyone else sees the newest that is committed.
        """
        checked_path(path)
        committed = and_(generation.c.path == path, generation.c.phase == "committed")
        newest = select(generation.c.id).where(committed).order_by(generation.c.commit_number.desc()).limit(1)
        with self.reading() as connection:
            found = None
            if origin.run_id:
                run = and_(generation.c.dag_id == origin.dag_id, generation.c.run_id == origin.run_id)
                found = connection.scalar(newest.where(run))
                if found is None:
                    snapshot = connection.scalar(select(dag_run.c.snapshot).where(run_is(origin)))
                    bound = generation.c.commit_number <= (snapshot or 0)
                    found = connection.scalar(newest.where(bound) if snapshot is not None else newest)
            else:
                found = connection.scalar(newest)
            if found is not None:
                return load(connection, [found])[found]
        if self.find(path=path, limit=1):
            raise UnknownDatasetError(f"{path}: no committed generation" + (" for this run" if origin.run_id else ""))
        raise NeverWrittenError(path)

    def find(self, **fits: Unpack[Fits]) -> list[Dataset]:
        """Generations that fit every filter given, the newest first."""
        return self.select(_fitting(**fits))

    def select(self, query: Select[Any]) -> list[Dataset]:
        """The generations whose ids `query` gives, in its order."""
        with self.reading() as connection:
            identities = list(connection.scalars(query).all())
            loaded = load(connection, identities)
            return [loaded[identity] for identity in identities]

    def known(self, refs: Iterable[Ref]) -> list[Dataset]:
        """Those of `refs` that are in the catalog, in no order."""
        wanted = frozenset(refs)
        found: list[int] = []
        with self.reading() as connection:
            for paths in sliced(sorted({ref.path for ref in wanted})):
                rows = connection.execute(select(generation).where(generation.c.path.in_(paths)))
                found += [row.id for row in rows if Ref(row.path, row.generation) in wanted]
            return list(load(connection, found).values())

    def made_from(self, ref: Ref, limit: int = 1000) -> list[Dataset]:
        """The generations that were made directly from one, the newest first; raises `UnknownDatasetError`."""
        with self.reading() as connection:
            key = key_of(connection, ref)
        of = source.c.source_id == key
        return self.select(
            select(source.c.generation_id).where(of).distinct().order_by(source.c.generation_id.desc()).limit(limit)
        )

    def dag_ids(self) -> list[str]:
        """The DAGs that made anything, sorted; among them the empty one, if something was made by none."""
        with self.reading() as connection:
            return sorted(connection.scalars(select(generation.c.dag_id).distinct()).all())

    def history(self, ref: Ref | None = None, *, since: float = 0.0) -> list[Moment]:
        """The changes of state of one generation, or of all, in the order in which they were made."""
        query = (
            select(transitions, generation.c.path, generation.c.generation)
            .join(generation, generation.c.id == transitions.c.generation_id)
            .where(transitions.c.at >= since)
            .order_by(transitions.c.id)
        )
        if ref is not None:
            query = query.where(generation.c.path == ref.path, generation.c.generation == ref.generation)
        with self.reading() as connection:
            return [
                Moment(
                    Ref(row.path, row.generation), row.at, row.event, Phase(row.phase), Cache(row.cache),
                    Under(row.under), row.who, row.why,
                )
                for row in connection.execute(query)
            ]  # fmt: skip

    def cache_used(self) -> int:
        """Bytes in the cache, and those that open writes are expected to need."""
        cached = select(func.coalesce(func.sum(generation.c.bytes), 0)).where(schema.in_cache)
        expected = select(func.coalesce(func.sum(generation.c.bytes), 0)).where(
            schema.being_written, generation.c.cache == "writing"
        )
        with self.reading() as connection:
            return int(connection.scalar(cached) or 0) + int(connection.scalar(expected) or 0)

    def phases(self) -> dict[str, int]:
        """How many generations are in each phase."""
        counted = select(generation.c.phase, func.count()).group_by(generation.c.phase).order_by(generation.c.phase)
        with self.reading() as connection:
            return {str(phase): int(count) for phase, count in connection.execute(counted)}

    def uses_under_store(self) -> bool:
        """Whether any generation has a copy in the under-store; one that is on its way there is none yet."""
        used = select(generation.c.id).where(schema.persisted).limit(1)
        with self.reading() as connection:
            return connection.scalar(used) is not None

    # ---- lineage

    def belief(self) -> Belief:
        """What only the catalog says to be in the under-store, if that does not answer."""
        with self.reading() as connection:
            return belief_from(connection)

    def lineage_around(self, refs: Iterable[Ref], *, down: bool = True, away: bool = False) -> Lineage:
        """The part of the lineage that decisions on `refs` need; see `neighbourhood.lineage_from`."""
        with self.reading() as connection:
            seeds = keys_of(connection, list(refs))
            return lineage_from(connection, seeds, down=down, away=away)

    def lineage_of(self, **fits: Unpack[Fits]) -> tuple[Lineage, int]:
        """What `find` finds and what would bring it back, as one transaction sees it; and how many were found."""
        with self.reading() as connection:
            found = connection.scalars(_fitting(**fits)).all()
            return lineage_from(connection, found, down=False), len(found)

    def alone(self, keys: Sequence[int]) -> Lineage:
        """A lineage of these generations alone, in this order, without what they were made from."""
        with self.reading() as connection:
            loaded = load(connection, keys)
            names = {dataset.call.name for dataset in loaded.values() if dataset.call}
            operations = operations_of(connection, names)
        return Lineage({loaded[key].ref: loaded[key] for key in keys}, operations)

    def loss_of_cache(self, *, away: bool = False) -> CacheLoss:
        """What a loss of the whole cache would touch; `away`: the under-store's copies count for nothing."""
        with self.reading() as connection:
            return loss_from(connection, away=away)

    def lineage_of_cache(self, *, away: bool = False) -> Lineage:
        """The lineage of everything that is committed and in the cache or not persisted; `away`: as `loss_of_cache`."""
        settled = and_(generation.c.cache == "present", generation.c.phase == "committed")
        with self.reading() as connection:
            cached = connection.scalars(select(generation.c.id).where(settled)).all()
            loose = connection.scalars(select(generation.c.id).where(schema.unsettled)).all()
            return lineage_from(connection, sorted({*cached, *loose}), down=False, away=away)


def _fitting(
    *,
    path: str = "",
    prefix: str = "",
    origin: Origin | None = None,
    phase: Phase | None = None,
    live: bool = False,
    superseded: bool | None = None,
    dag_ids: Collection[str] | None = None,
    run_ids: Collection[str] | None = None,
    limit: int = 1000,
) -> Select[Any]:
    """The keys of the generations that fit, the newest first."""
    query = select(generation.c.id).order_by(generation.c.id.desc()).limit(limit)
    if path:
        query = query.where(generation.c.path == path)
    if prefix:
        # Not LIKE, to which SQLite's small letters are the same as large ones.
        query = query.where(func.substr(generation.c.path, 1, len(prefix)) == prefix)
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
    if live:
        query = query.where(generation.c.phase.in_([Phase.OPEN.value, Phase.COMMITTED.value]))
    if superseded is not None:
        query = query.where(generation.c.superseded == superseded)
    if dag_ids is not None:
        query = query.where(generation.c.dag_id.in_(dag_ids))
    if run_ids is not None:
        query = query.where(generation.c.run_id.in_(run_ids))
    return query
