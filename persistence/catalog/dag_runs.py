"""DAG runs with their snapshots, and readers: both keep generations from being removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update

from springline.persistence.catalog.database import Database
from springline.persistence.catalog.records import insert_of, key_of, load_datasets
from springline.persistence.catalog.schema import commit_counter, dag_run, db_now, generation, reader
from springline.persistence.model.dataset import Dataset, Origin, Ref


class DagRuns(Database):
    """The part of the catalog for DAG runs and readers."""

    def begin_run(self, origin: Origin) -> None:
        """Record that a DAG run began: it does not see what others commit later. Only the first call counts."""
        with self.write_transaction() as connection:
            newest = select(func.coalesce(func.max(commit_counter.c.number), 0)).scalar_subquery()
            values = {"dag_id": origin.dag_id, "run_id": origin.run_id, "started_at": db_now(), "snapshot": newest}
            connection.execute(insert_of(connection, dag_run).values(**values).on_conflict_do_nothing())

    def end_run(self, origin: Origin, outcome: str) -> None:
        """Record the end and the outcome of a DAG run; it no longer keeps generations from being retired."""
        with self.write_transaction() as connection:
            connection.execute(update(dag_run).where(is_dag_run(origin)).values(ended_at=db_now(), outcome=outcome))

    @contextmanager
    def hold_for_reading(self, ref: Ref, seconds: float, *, counts_as_read: bool = True) -> Iterator[Dataset]:
        """Register a reader inside the block: the generation is neither evicted nor retired, for at most `seconds`.

        Yields the generation as it is once the reader is registered. It counts as a read if `counts_as_read`. Raises
        `UnknownDatasetError`.
        """
        with self.write_transaction() as connection:
            identity = key_of(connection, ref)
            # Locks the row in any case, so that a concurrent eviction or retirement sees the reader.
            read_columns = (
                {"reads": generation.c.reads + 1, "last_read_at": db_now()} if counts_as_read else {"id": identity}
            )
            connection.execute(update(generation).where(generation.c.id == identity).values(**read_columns))
            values = {"generation_id": identity, "until": db_now() + seconds}
            key = connection.execute(insert(reader).values(**values)).inserted_primary_key[0]  # type: ignore[index]
            dataset = load_datasets(connection, [identity])[identity]
        try:
            yield dataset
        finally:
            with self.write_transaction() as connection:
                connection.execute(reader.delete().where(or_(reader.c.id == key, reader.c.until < db_now())))

    def refs_being_read(self) -> frozenset[Ref]:
        """Return the generations that have readers now."""
        query = (
            select(generation.c.path, generation.c.generation)
            .join(reader, reader.c.generation_id == generation.c.id)
            .where(reader.c.until > db_now())
        )
        with self.read_transaction() as connection:
            return frozenset(Ref(row.path, row.generation) for row in connection.execute(query))


def is_dag_run(origin: Origin) -> Any:
    """Return the condition that a row belongs to this DAG run."""
    return and_(dag_run.c.dag_id == origin.dag_id, dag_run.c.run_id == origin.run_id)
