"""The catalog: changes what is known of generations and operations, one transaction at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, and_, func, insert, select, update

from springline.persistence.backends.copy_layout import cache_place
from springline.persistence.catalog import schema
from springline.persistence.catalog.dag_runs import Runs
from springline.persistence.catalog.generations import Generations
from springline.persistence.catalog.lineage_query import children_of, operations_of
from springline.persistence.catalog.records import insert_of, key_of, load, sliced
from springline.persistence.catalog.risk_samples import RiskSamples
from springline.persistence.catalog.schema import commit_counter, db_now, generation, operation, source
from springline.persistence.catalog.schema import transition as transitions
from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import (
    Cache,
    Call,
    Dataset,
    Operation,
    Origin,
    Phase,
    Ref,
    Strategy,
    Under,
    checked_path,
)
from springline.persistence.model.transitions import START, Event, State, after
from springline.persistence.text.redaction import redacted

logger = logging.getLogger("springline.catalog")

_ALWAYS: Mapping[str, Any] = MappingProxyType({})


class Catalog(Generations, Runs, RiskSamples):
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
        """Open the next generation of `path`; raises `InvalidPathError`, `UnknownDatasetError` for an unknown source.

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

        `only_if` names columns that must still have these values. Raises `TransitionError`.
        """
        row = connection.execute(
            select(
                generation.c.phase, generation.c.cache, generation.c.under, generation.c.path, generation.c.generation
            ).where(generation.c.id == identity)
        ).one()
        before = State(Phase(row.phase), Cache(row.cache), Under(row.under))
        try:
            state = after(event, before)
        except TransitionError as refusal:
            raise TransitionError(f"{row.path}@{row.generation}: {refusal}") from None
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
            raise TransitionError(f"{row.path}@{row.generation}: {event} came too late, somebody else was first")
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
                    added = insert_of(connection, operation).values(name=new.name, version=new.version, **told)
                    connection.execute(added.on_conflict_do_nothing())  # another process may be first
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
            logger.warning("%s (version %s) gave another digest: it is not idempotent", call.name, call.version)
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
        """Put what waits at the head of the queue that this operation made, and what would be made again from that."""
        mine = and_(generation.c.operation == name, generation.c.version == version, schema.unsettled)
        frontier = list(connection.scalars(select(generation.c.id).where(mine)).all())
        own, leaning = frozenset(frontier), dict.fromkeys(frontier)
        while frontier:
            below = children_of(connection, frontier, schema.unsettled)
            frontier = [child for child in below if child not in leaning]
            leaning |= dict.fromkeys(frontier)
        refs = []
        for part in sliced(list(leaning)):
            affected = and_(generation.c.id.in_(part), schema.waiting, generation.c.head.is_(False))
            moved = update(generation).where(affected).values(head=True).returning(generation)
            for row in connection.execute(moved).all():
                state = State(Phase(row.phase), Cache(row.cache), Under(row.under))
                reason = why if row.id in own else f"what it would be made again from cannot be made again: {why}"
                self.log(connection, row.id, "to the head of the queue", state, reason)
                refs.append(Ref(row.path, row.generation))
        return sorted(refs)

    def log(self, connection: Connection, identity: int, event: str, state: State, why: str) -> None:
        """Note what happened to a generation, and its state then."""
        connection.execute(
            insert(transitions).values(
                generation_id=identity, at=db_now(), event=event, phase=state.phase.value, cache=state.cache.value,
                under=state.under.value, who=self.who, why=redacted(why),
            )
        )  # fmt: skip


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
