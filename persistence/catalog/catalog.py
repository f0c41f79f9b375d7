"""The catalog: changes the records of generations and operations, one transaction at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection, and_, func, insert, select, update

from springline.persistence.backends.copy_layout import cache_copy_location
from springline.persistence.catalog import schema
from springline.persistence.catalog.dag_runs import DagRuns
from springline.persistence.catalog.generations import Generations
from springline.persistence.catalog.lineage_query import children_of, operations_of
from springline.persistence.catalog.live_generations import LiveGenerations
from springline.persistence.catalog.records import chunks_of, insert_of, key_of, load_datasets
from springline.persistence.catalog.risk_samples import RiskSamples
from springline.persistence.catalog.schema import commit_counter, db_now, generation, operation, source
from springline.persistence.catalog.schema import transition as transitions
from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import (
    CacheState,
    Call,
    Dataset,
    Operation,
    Origin,
    Phase,
    Ref,
    Strategy,
    UnderStoreState,
    validate_path,
)
from springline.persistence.model.transitions import INITIAL_STATE, Event, GenerationState, next_state
from springline.persistence.text.redaction import redact_secrets

logger = logging.getLogger("springline.catalog")

_NO_CONDITIONS: Mapping[str, Any] = MappingProxyType({})


class Catalog(Generations, LiveGenerations, DagRuns, RiskSamples):
    """Records generations, operations, DAG runs, readers and measurements in one database."""

    def __init__(self, url: str | URL, *, actor: str = "", timeout: float = 0.0) -> None:
        super().__init__(url, timeout=timeout)
        self.actor = actor
        self._listeners: list[Callable[[Event, Dataset], None]] = []

    def acting_as(self, actor: str) -> Catalog:
        """Return the same catalog with `actor` recorded as the author of its changes."""
        clone = copy(self)
        clone.actor = actor
        return clone

    def subscribe(self, listener: Callable[[Event, Dataset], None]) -> None:
        """Call `listener` after every committed change of state made through this object, except claims."""
        self._listeners.append(listener)

    def notify(self, event: Event, dataset: Dataset) -> None:
        """Call all listeners with `dataset` as it is after the change.

        The change is already committed: an exception of a listener is logged and not raised.
        """
        for listener in self._listeners:
            try:
                listener(event, dataset)
            except Exception:
                logger.exception("%s: a listener failed on the event %s", dataset.ref, event)

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
        persist_requested: bool = True,
        expected_bytes: int = 0,
    ) -> Dataset:
        """Open the next generation of `path`; raises `InvalidPathError`, `UnknownDatasetError` for an unknown source.

        Open generations of the same path by the same task of the same DAG run belong to an earlier try and are
        abandoned.
        """
        validate_path(path)
        abandoned = []
        with self.write_transaction() as connection:
            if connection.dialect.name == "postgresql":  # elsewhere there is only one writer at a time anyway
                connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(path))))
            if origin.run_id:
                open_by_same_task = and_(generation.c.path == path, generation.c.phase == "open", _is_made_by(origin))
                for identity in connection.scalars(select(generation.c.id).where(open_by_same_task)).all():
                    self.apply(connection, identity, Event.ABANDONED, reason="another attempt of the task started")
                    abandoned.append(load_datasets(connection, [identity])[identity])
            newest = connection.scalar(select(func.max(generation.c.generation)).where(generation.c.path == path))
            number = (newest or 0) + 1
            identity = connection.execute(
                insert(generation).values(
                    path=path,
                    generation=number,
                    phase=INITIAL_STATE.phase.value,
                    cache=INITIAL_STATE.cache.value,
                    under=INITIAL_STATE.under.value,
                    strategy=strategy.value,
                    persist_requested=persist_requested and strategy is not Strategy.CACHE_ONLY,
                    checkpoint=checkpoint,
                    operation=call.name if call else None,
                    version=call.version if call else None,
                    params=dict(call.params) if call else None,
                    dag_id=origin.dag_id,
                    run_id=origin.run_id,
                    task_id=origin.task_id,
                    cache_location=cache_copy_location(Ref(path, number)),
                    bytes=expected_bytes,
                    created_at=db_now(),
                )
            ).inserted_primary_key[0]  # type: ignore[index]
            for position, ref in enumerate(sources):
                connection.execute(
                    insert(source).values(generation_id=identity, position=position, source_id=key_of(connection, ref))
                )
            self.log_event(connection, identity, "opened", INITIAL_STATE, "")
            new_dataset = load_datasets(connection, [identity])[identity]
        for dataset in abandoned:
            self.notify(Event.ABANDONED, dataset)
        return new_dataset

    def apply(
        self,
        connection: Connection,
        identity: int,
        event: Event,
        *,
        reason: str = "",
        only_if: Mapping[str, Any] = _NO_CONDITIONS,
        **columns: Any,
    ) -> GenerationState:
        """Apply one event as a compare-and-set, and set the columns in `columns`.

        `only_if` names columns that must still have these values. Raises `TransitionError`.
        """
        row = connection.execute(
            select(
                generation.c.phase, generation.c.cache, generation.c.under, generation.c.path, generation.c.generation
            ).where(generation.c.id == identity)
        ).one()
        before = GenerationState(Phase(row.phase), CacheState(row.cache), UnderStoreState(row.under))
        try:
            state = next_state(event, before)
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
            .values(phase=state.phase.value, cache=state.cache.value, under=state.under.value, **columns)
        ).rowcount
        if changed != 1:
            raise TransitionError(
                f"{row.path}@{row.generation}: {event} was rejected, because the state changed concurrently"
            )
        self.log_event(connection, identity, event.value, state, reason)
        return state

    def change(
        self, ref: Ref, event: Event, *, reason: str = "", only_if: Mapping[str, Any] = _NO_CONDITIONS, **columns: Any
    ) -> Dataset:
        """Call `apply` in a separate transaction; returns the generation as it is afterwards."""
        with self.write_transaction() as connection:
            identity = key_of(connection, ref)
            self.apply(connection, identity, event, reason=reason, only_if=only_if, **columns)
            dataset = load_datasets(connection, [identity])[identity]
        self.notify(event, dataset)
        return dataset

    def amend(self, ref: Ref, *, event: str = "", reason: str = "", **columns: Any) -> None:
        """Set columns that are not state (pinned, wanted, head, …); with `event`, log the actor and the reason."""
        with self.write_transaction() as connection:
            identity = key_of(connection, ref)
            if columns:
                connection.execute(update(generation).where(generation.c.id == identity).values(**columns))
            if event:
                dataset = load_datasets(connection, [identity])[identity]
                self.log_event(
                    connection, identity, event, GenerationState(dataset.phase, dataset.cache, dataset.under), reason
                )

    def commit(self, ref: Ref, *, reason: str = "", **columns: Any) -> Dataset:
        """Make a generation visible to readers; from now on it is the newest of its path."""
        with self.write_transaction() as connection:
            identity = key_of(connection, ref)
            number = _next_commit_number(connection)
            self.apply(
                connection,
                identity,
                Event.COMMITTED,
                reason=reason,
                committed_at=db_now(),
                commit_number=number,
                **columns,
            )
            connection.execute(
                update(generation)
                .where(generation.c.path == ref.path, generation.c.id != identity, generation.c.phase == "committed")
                .values(superseded=True)
            )
            dataset = load_datasets(connection, [identity])[identity]
        self.notify(Event.COMMITTED, dataset)
        return dataset

    # ---- operations

    def register_operations(self, operations: Iterable[Operation]) -> list[Ref]:
        """Record the operations whose code is available; other versions of them are marked as not runnable.

        Queued unpersisted generations that become non-recomputable by this move to the head of the queue; returns
        those generations.
        """
        expedited: list[Ref] = []
        with self.write_transaction() as connection:
            for new in operations:
                of_name = operation.c.name == new.name
                recorded = connection.execute(select(operation).where(of_name)).all()
                columns = {
                    "idempotent": new.idempotent, "checkpoint": new.checkpoint, "runnable": True,
                    "reads": list(new.reads), "output": new.output,
                }  # fmt: skip
                same = [row for row in recorded if row.version == new.version]
                if not same:
                    added = insert_of(connection, operation).values(name=new.name, version=new.version, **columns)
                    connection.execute(added.on_conflict_do_nothing())  # another process may be first
                elif any(getattr(same[0], column) != value for column, value in columns.items()):
                    connection.execute(
                        update(operation).where(of_name, operation.c.version == new.version).values(**columns)
                    )
                    if same[0].idempotent and not new.idempotent:
                        reason = "its operation is no longer declared idempotent"
                        expedited += self._expedite(connection, new.name, new.version, reason)
                for row in recorded:
                    if row.runnable and row.version != new.version:
                        outdated = and_(of_name, operation.c.version == row.version)
                        connection.execute(update(operation).where(outdated).values(runnable=False))
                        expedited += self._expedite(
                            connection, new.name, row.version, "the code that made it no longer exists"
                        )
        return expedited

    def record_reproduction(self, call: Call, *, same: bool) -> list[Ref]:
        """Record whether a second run gave the same digest; if not, the operation is marked non-idempotent.

        Returns the queued generations that moved to the head of the queue.
        """
        is_operation = and_(operation.c.name == call.name, operation.c.version == call.version)
        with self.write_transaction() as connection:
            if same:
                connection.execute(update(operation).where(is_operation).values(repeats=operation.c.repeats + 1))
                return []
            logger.warning("%s (version %s) returned another digest: it is not idempotent", call.name, call.version)
            connection.execute(update(operation).where(is_operation).values(nondeterministic=True))
            return self._expedite(connection, call.name, call.version, "its operation proved to be non-idempotent")

    def operations(self) -> list[Operation]:
        """Return all recorded operations, sorted by name and version."""
        with self.read_transaction() as connection:
            names = connection.scalars(select(operation.c.name).distinct()).all()
            return sorted(operations_of(connection, names).values(), key=lambda o: (o.name, o.version))

    def _expedite(self, connection: Connection, name: str, version: str, reason: str) -> list[Ref]:
        """Move the queued generations of this operation and their unpersisted descendants to the head of the queue."""
        made_by_operation = and_(generation.c.operation == name, generation.c.version == version, schema.is_unpersisted)
        frontier = list(connection.scalars(select(generation.c.id).where(made_by_operation)).all())
        own, dependents = frozenset(frontier), dict.fromkeys(frontier)
        while frontier:
            below = children_of(connection, frontier, schema.is_unpersisted)
            frontier = [child for child in below if child not in dependents]
            dependents |= dict.fromkeys(frontier)
        refs = []
        for part in chunks_of(list(dependents)):
            affected = and_(generation.c.id.in_(part), schema.is_waiting, generation.c.expedited.is_(False))
            expedite = update(generation).where(affected).values(expedited=True).returning(generation)
            for row in connection.execute(expedite).all():
                state = GenerationState(Phase(row.phase), CacheState(row.cache), UnderStoreState(row.under))
                row_reason = (
                    reason if row.id in own else f"a source that its recomputation needs cannot be recomputed: {reason}"
                )
                self.log_event(connection, row.id, "expedited", state, row_reason)
                refs.append(Ref(row.path, row.generation))
        return sorted(refs)

    def log_event(self, connection: Connection, identity: int, event: str, state: GenerationState, reason: str) -> None:
        """Log an event of a generation, with its state afterwards."""
        connection.execute(
            insert(transitions).values(
                generation_id=identity, changed_at=db_now(), event=event, phase=state.phase.value,
                cache=state.cache.value,
                under=state.under.value, actor=self.actor, reason=redact_secrets(reason),
            )
        )  # fmt: skip


def _is_made_by(origin: Origin) -> Any:
    return and_(
        generation.c.dag_id == origin.dag_id,
        generation.c.run_id == origin.run_id,
        generation.c.task_id == origin.task_id,
    )


def _next_commit_number(connection: Connection) -> int:
    table = commit_counter
    row = insert_of(connection, table).values(id=1, number=1)
    row = row.on_conflict_do_update(index_elements=[table.c.id], set_={"number": table.c.number + 1})
    return int(connection.scalar(row.returning(table.c.number)))
