"""Who may still look at a generation: DAG runs with what they see, and readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update

from springline.persistence.catalog.database import Database
from springline.persistence.catalog.records import insert_of, key_of, load
from springline.persistence.catalog.schema import commit_counter, dag_run, db_now, generation, reader
from springline.persistence.model.dataset import Dataset, Origin, Ref


class Runs(Database):
    """The part of the catalog that knows DAG runs and readers."""

    def begin_run(self, origin: Origin) -> None:
        """Note that a DAG run began: what is committed later by others it does not see. The first call counts."""
        with self.writing() as connection:
            newest = select(func.coalesce(func.max(commit_counter.c.number), 0)).scalar_subquery()
            values = {"dag_id": origin.dag_id, "run_id": origin.run_id, "began_at": db_now(), "snapshot": newest}
            connection.execute(insert_of(connection, dag_run).values(**values).on_conflict_do_nothing())

    def end_run(self, origin: Origin, outcome: str) -> None:
        """Note that a DAG run ended, and how; it holds no generation back from now on."""
        with self.writing() as connection:
            connection.execute(update(dag_run).where(run_is(origin)).values(ended_at=db_now(), outcome=outcome))

    @contextmanager
    def held(self, ref: Ref, seconds: float, *, counts: bool = True) -> Iterator[Dataset]:
        """While inside, the generation is being read: neither evicted nor retired (for `seconds` at most).

        Yields it as it is once it is held. It counts as read, unless not `counts`. Raises `UnknownDatasetError`.
        """
        with self.writing() as connection:
            identity = key_of(connection, ref)
            # Takes the row's lock in any case: whoever evicts or retires it now has to see the reader.
            read = {"reads": generation.c.reads + 1, "last_read_at": db_now()} if counts else {"id": identity}
            connection.execute(update(generation).where(generation.c.id == identity).values(**read))
            values = {"generation_id": identity, "until": db_now() + seconds}
            key = connection.execute(insert(reader).values(**values)).inserted_primary_key[0]  # type: ignore[index]
            dataset = load(connection, [identity])[identity]
        try:
            yield dataset
        finally:
            with self.writing() as connection:
                connection.execute(reader.delete().where(or_(reader.c.id == key, reader.c.until < db_now())))

    def held_refs(self) -> frozenset[Ref]:
        """The generations that somebody is reading now."""
        query = (
            select(generation.c.path, generation.c.generation)
            .join(reader, reader.c.generation_id == generation.c.id)
            .where(reader.c.until > db_now())
        )
        with self.reading() as connection:
            return frozenset(Ref(row.path, row.generation) for row in connection.execute(query))


def run_is(origin: Origin) -> Any:
    """The condition that a row is that of this DAG run."""
    return and_(dag_run.c.dag_id == origin.dag_id, dag_run.c.run_id == origin.run_id)
