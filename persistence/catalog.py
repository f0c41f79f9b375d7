"""The catalog: what is known of every generation, changed one transaction at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from sqlalchemy import Connection, Select, and_, func, insert, select, update

from persistence import schema
from persistence.cache_loss import CacheLoss, loss_from
from persistence.errors import RefusedTransition, UnknownDataset
from persistence.lineage import Lineage
from persistence.model import (
    Cache,
    Call,
    Dataset,
    Moment,
    Operation,
    Origin,
    Phase,
    Ref,
    Strategy,
    Under,
    checked_path,
)
from persistence.neighbourhood import lineage_from, operations_of
from persistence.places import cache_place
from persistence.records import insert_of, key_of, keys_of, load
from persistence.redacting import redacted
from persistence.risk_samples import RiskSamples
from persistence.runs import Runs, run_is
from persistence.schema import commit_counter, dag_run, db_now, generation, operation, source
from persistence.schema import transition as transitions
from persistence.transitions import START, Event, State, after

logger = logging.getLogger("springline.catalog")

_ALWAYS: Mapping[str, Any] = MappingProxyType({})


class Fits(TypedDict, total=False):
    """What generations are looked for by; `limit`: 1,000 unless given.

    `dag_ids`, `run_ids`: made by one of these DAGs, in one of these DAG runs.
    """

    path: str
    prefix: str
    origin: Origin
    phase: Phase
    superseded: bool | None
    dag_ids: Collection[str]
    run_ids: Collection[str] | None
    limit: int


class Catalog(Runs, RiskSamples):
    """Records generations, operations, DAG runs, readers and measurements in one database."""

    def __init__(self, url: str, *, who: str = "", patience: float = 0.0) -> None:
        super().__init__(url, patience=patience)
        self.who = who
        self._heard: list[Callable[[Event, Dataset], None]] = []

    def acting_as(self, who: str) -> Catalog:
        """The same catalog, whose changes are noted as made by `who`."""
        same = copy(self)
        same.who = who
        return same

    def hear(self, told: Callable[[Event, Dataset], None]) -> None:
        """Have `told` called after every change of state that is made here (but claims), once it is in the database."""
        self._heard.append(told)

    def announce(self, event: Event, dataset: Dataset) -> None:
        """Call whoever wants to hear of changes; `dataset` is as it is after the change.

        The change is made: an error of theirs is logged, and whoever made it goes on.
        """
        for told in self._heard:
            try:
                told(event, dataset)
            except Exception:
                logger.exception("%s: %s was not told on", dataset.ref, event)

    # ---- changing a generation

    def begin(
        self,
        path: str,
        *,
        call: Call | None = None,
        sources: Sequence[Ref] = (),
        strategy: Strategy,
        origin: Origin = Origin(),
        checkpoint: bool = False,
        wanted: bool = True,
        expected_bytes: int = 0,
    ) -> Dataset:
        """Open the next generation of `path`; raises `InvalidPath`, `UnknownDataset` for an unknown source.

        Open generations of the same path by the same task of the same DAG run belong to a try that
        is over, and are abandoned.
        """
        checked_path(path)
        tries = []
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":  # elsewhere only one writes at a time anyway
                connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(path))))
            if origin.run_id:
                mine = and_(generation.c.path == path, generation.c.phase == "open", _by(origin))
                for identity in connection.scalars(select(generation.c.id).where(mine)).all():
                    self.apply(connection, identity, Event.ABANDONED, why="another try of the task began")
                    tries.append(load(connection, [identity])[identity])
            newest = connection.scalar(select(func.max(generation.c.generation)).where(generation.c.path == path))
            number = (newest or 0) + 1
            identity = connection.execute(
                insert(generation).values(
                    path=path,
                    generation=number,
                    phase=START.phase.value,
                    cache=START.cache.value,
                    under=START.under.value,
                    strategy=strategy.value,
                    wanted=wanted and strategy is not Strategy.CACHE_ONLY,
                    checkpoint=checkpoint,
                    operation=call.name if call else None,
                    version=call.version if call else None,
                    params=dict(call.params) if call else None,
                    dag_id=origin.dag_id,
                    run_id=origin.run_id,
                    task_id=origin.task_id,
                    cache_location=cache_place(Ref(path, number)),
                    bytes=expected_bytes,
                    created_at=db_now(),
                )
            ).inserted_primary_key[0]  # type: ignore[index]
            for position, ref in enumerate(sources):
                connection.execute(
                    insert(source).values(generation_id=identity, position=position, source_id=key_of(connection, ref))
                )
            self.log(connection, identity, "began", START, "")
            begun = load(connection, [identity])[identity]
        for dataset in tries:
            self.announce(Event.ABANDONED, dataset)
        return begun

    def apply(
        self,
        connection: Connection,
        identity: int,
        event: Event,
        *,
        why: str = "",
        only_if: Mapping[str, Any] = _ALWAYS,
        **also: Any,
    ) -> State:
        """Carry one event out, compare-and-set, together with the columns in `also`.

        `only_if` names columns that must still have these values. Raises `RefusedTransition`.
        """
        row = connection.execute(
            select(
                generation.c.phase, generation.c.cache, generation.c.under, generation.c.path, generation.c.generation
            ).where(generation.c.id == identity)
        ).one()
        before = State(Phase(row.phase), Cache(row.cache), Under(row.under))
        try:
            state = after(event, before)
        except RefusedTransition as refusal:
            raise RefusedTransition(f"{row.path}@{row.generation}: {refusal}") from None
        unchanged = [
            generation.c.id == identity,
            generation.c.phase == before.phase.value,
            generation.c.cache == before.cache.value,
            generation.c.under == before.under.value,
        ]
        unchanged += [generation.c[column] == value for column, value in only_if.items()]
        changed = connection.execute(
            update(generation)
            .where(*unchanged)
            .values(phase=state.phase.value, cache=state.cache.value, under=state.under.value, **also)
        ).rowcount
        if changed != 1:
            raise RefusedTransition(f"{row.path}@{row.generation}: {event} came too late, somebody else was first")
        self.log(connection, identity, event.value, state, why)
        return state

    def change(
        self, ref: Ref, event: Event, *, why: str = "", only_if: Mapping[str, Any] = _ALWAYS, **also: Any
    ) -> Dataset:
        """`apply` in a transaction of its own; returns the generation as it is then."""
        with self.writing() as connection:
            identity = key_of(connection, ref)
            self.apply(connection, identity, event, why=why, only_if=only_if, **also)
            dataset = load(connection, [identity])[identity]
        self.announce(event, dataset)
        return dataset

    def amend(self, ref: Ref, *, event: str = "", why: str = "", **columns: Any) -> None:
        """Set columns that are no state (pinned, wanted, head, …); with `event`, log who did it and why."""
        with self.writing() as connection:
            identity = key_of(connection, ref)
            if columns:
                connection.execute(update(generation).where(generation.c.id == identity).values(**columns))
            if event:
                now = load(connection, [identity])[identity]
                self.log(connection, identity, event, State(now.phase, now.cache, now.under), why)

    def commit(self, ref: Ref, *, why: str = "", **also: Any) -> Dataset:
        """Let readers see a generation; from now on it is the newest of its path."""
        with self.writing() as connection:
            identity = key_of(connection, ref)
            number = _upsert_counter(connection)
            self.apply(
                connection, identity, Event.COMMITTED, why=why, committed_at=db_now(), commit_number=number, **also
            )
            connection.execute(
                update(generation)
                .where(generation.c.path == ref.path, generation.c.id != identity, generation.c.phase == "committed")
                .values(superseded=True)
            )
            dataset = load(connection, [identity])[identity]
        self.announce(Event.COMMITTED, dataset)
        return dataset

    # ---- finding generations

    def get(self, ref: Ref) -> Dataset:
        """One generation; raises `UnknownDataset`."""
        return self.get_all([ref])[0]

    def get_all(self, refs: Sequence[Ref]) -> list[Dataset]:
        """The generations, in the order asked for; raises `UnknownDataset`."""
        with self.reading() as connection:
            identities = keys_of(connection, refs)
            loaded = load(connection, identities)
            return [loaded[identity] for identity in identities]

    def resolve(self, path: str, origin: Origin = Origin()) -> Dataset:
        """The generation that a reader of `path` sees; raises `UnknownDataset`.

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
            if found is None:
                raise UnknownDataset(f"{path}: no committed generation" + (" for this run" if origin.run_id else ""))
            return load(connection, [found])[found]

    def find(self, **fits: Unpack[Fits]) -> list[Dataset]:
        """Generations that fit every filter given, the newest first."""
        return self.select(_fitting(**fits))

    def select(self, query: Select[Any]) -> list[Dataset]:
        """The generations whose ids `query` gives, in its order."""
        with self.reading() as connection:
            identities = list(connection.scalars(query).all())
            loaded = load(connection, identities)
            return [loaded[identity] for identity in identities]

    def made_from(self, ref: Ref, limit: int = 1000) -> list[Dataset]:
        """The generations that were made directly from one, the newest first; raises `UnknownDataset`."""
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

    # ---- lineage

    def lineage_around(self, refs: Iterable[Ref], *, down: bool = True) -> Lineage:
        """The part of the lineage that decisions on `refs` need; see `neighbourhood.lineage_from`."""
        with self.reading() as connection:
            seeds = keys_of(connection, list(refs))
            return lineage_from(connection, seeds, down=down)

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

    def loss_of_cache(self) -> CacheLoss:
        """What a loss of the whole cache would touch."""
        with self.reading() as connection:
            return loss_from(connection)

    def lineage_of_cache(self) -> Lineage:
        """The lineage of everything that is committed and in the cache or not persisted."""
        settled = and_(generation.c.cache == "present", generation.c.phase == "committed")
        with self.reading() as connection:
            cached = connection.scalars(select(generation.c.id).where(settled)).all()
            loose = connection.scalars(select(generation.c.id).where(schema.unsettled)).all()
            return lineage_from(connection, sorted({*cached, *loose}), down=False)

    # ---- operations

    def register_operations(self, operations: Iterable[Operation]) -> list[Ref]:
        """Record the operations whose code is here; other versions of them can no longer be run.

        What thereby stops being recomputable while it waits unpersisted goes to the head of the
        queue; returns those generations.
        """
        moved: list[Ref] = []
        with self.writing() as connection:
            for new in operations:
                of_name = operation.c.name == new.name
                known = connection.execute(select(operation).where(of_name)).all()
                told = {
                    "idempotent": new.idempotent, "checkpoint": new.checkpoint, "runnable": True,
                    "reads": list(new.reads),
                }  # fmt: skip
                same = [row for row in known if row.version == new.version]
                if not same:
                    connection.execute(insert(operation).values(name=new.name, version=new.version, **told))
                elif any(getattr(same[0], column) != value for column, value in told.items()):
                    connection.execute(
                        update(operation).where(of_name, operation.c.version == new.version).values(**told)
                    )
                    if same[0].idempotent and not new.idempotent:
                        why = "its operation is no longer declared idempotent"
                        moved += self._to_the_head(connection, new.name, new.version, why)
                for row in known:
                    if row.runnable and row.version != new.version:
                        gone = and_(of_name, operation.c.version == row.version)
                        connection.execute(update(operation).where(gone).values(runnable=False))
                        moved += self._to_the_head(connection, new.name, row.version, "the code that made it is gone")
        return moved

    def saw_repeat(self, call: Call, *, same: bool) -> list[Ref]:
        """Note that a second run gave the same digest, or another: then the operation is not idempotent.

        Returns the waiting generations that went to the head of the queue thereby.
        """
        of = and_(operation.c.name == call.name, operation.c.version == call.version)
        with self.writing() as connection:
            if same:
                connection.execute(update(operation).where(of).values(repeats=operation.c.repeats + 1))
                return []
            connection.execute(update(operation).where(of).values(unmasked=True))
            return self._to_the_head(
                connection, call.name, call.version, "its operation turned out not to be idempotent"
            )

    def operations(self) -> list[Operation]:
        """All recorded operations, by name and version."""
        with self.reading() as connection:
            names = connection.scalars(select(operation.c.name).distinct()).all()
            return sorted(operations_of(connection, names).values(), key=lambda o: (o.name, o.version))

    def _to_the_head(self, connection: Connection, name: str, version: str, why: str) -> list[Ref]:
        affected = and_(
            generation.c.operation == name,
            generation.c.version == version,
            schema.waiting,
            generation.c.head.is_(False),
        )
        refs = []
        for row in connection.execute(update(generation).where(affected).values(head=True).returning(generation)).all():
            state = State(Phase(row.phase), Cache(row.cache), Under(row.under))
            self.log(connection, row.id, "to the head of the queue", state, why)
            refs.append(Ref(row.path, row.generation))
        return refs

    def log(self, connection: Connection, identity: int, event: str, state: State, why: str) -> None:
        """Note what happened to a generation, and its state then."""
        connection.execute(
            insert(transitions).values(
                generation_id=identity, at=db_now(), event=event, phase=state.phase.value, cache=state.cache.value,
                under=state.under.value, who=self.who, why=redacted(why),
            )
        )  # fmt: skip


def _fitting(
    *,
    path: str = "",
    prefix: str = "",
    origin: Origin | None = None,
    phase: Phase | None = None,
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
        query = query.where(generation.c.path.startswith(prefix, autoescape=True))
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
    if superseded is not None:
        query = query.where(generation.c.superseded == superseded)
    if dag_ids is not None:
        query = query.where(generation.c.dag_id.in_(dag_ids))
    if run_ids is not None:
        query = query.where(generation.c.run_id.in_(run_ids))
    return query


def _by(origin: Origin) -> Any:
    return and_(
        generation.c.dag_id == origin.dag_id,
        generation.c.run_id == origin.run_id,
        generation.c.task_id == origin.task_id,
    )


def _upsert_counter(connection: Connection) -> int:
    table = commit_counter
    row = insert_of(connection, table).values(id=1, number=1)
    row = row.on_conflict_do_update(index_elements=[table.c.id], set_={"number": table.c.number + 1})
    return int(connection.scalar(row.returning(table.c.number)))
