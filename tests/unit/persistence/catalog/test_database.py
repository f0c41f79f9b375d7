"""Opening the catalog's database."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect
from sqlalchemy.exc import OperationalError

from springline.persistence.catalog import database
from springline.persistence.catalog.database import Database, open_database
from springline.persistence.catalog.schema import metadata
from springline.persistence.errors import CatalogUnavailableError, CatalogVersionError
from tests.support.datasets.stages import raise_


def _open(url: str, barrier: Any, ends: Any) -> None:
    """What each opening process does."""
    barrier.wait()
    try:
        with open_database(url).connect() as connection:
            ends.put(connection.exec_driver_sql("SELECT count(*) FROM alembic_version").scalar())
    except Exception as error:
        ends.put(repr(error))


def test_a_file_that_is_opened_twice_in_a_process_stays_locked(tmp_path: Path) -> None:
    """Else a process that closes it takes itself for the last one, and deletes the log that this one writes to."""
    file = tmp_path / "catalog.db"
    with open_database(f"sqlite:///{file}").connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM alembic_version").scalar()
        open_database(f"sqlite:///{file}").dispose()
        other = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM generation'); c.close()"
        )
        subprocess.run([sys.executable, "-c", other, str(file)], check=True, timeout=60)
        assert file.with_name("catalog.db-wal").exists()


def test_the_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    """Alembic finds no difference between a migrated database and the schema."""
    engine = open_database(f"sqlite:///{tmp_path}/catalog.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_every_index_of_the_schema_is_made_with_its_condition(tmp_path: Path) -> None:
    """Alembic does not compare conditions of partial indexes, so they are compared here."""
    migrated = open_database(f"sqlite:///{tmp_path}/catalog.db")
    plain = open_database(f"sqlite:///{tmp_path}/plain.db")
    with plain.begin() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
    indexes = []
    for engine in (migrated, plain):
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'index'").all()
            indexes.append({name: " ".join((sql or "").replace('"', "").split()) for name, sql in rows})
    assert indexes[0] == indexes[1]


def test_an_open_database_is_opened_again_as_it_is(tmp_path: Path) -> None:
    """Opening what is up to date changes nothing."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    open_database(url).dispose()
    before = (tmp_path / "catalog.db").read_bytes()
    open_database(url).dispose()
    assert (tmp_path / "catalog.db").read_bytes() == before


def test_a_catalog_of_newer_code_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    """The error names both revisions and what to do; once the revision is one that is known, it opens."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    engine = open_database(url)
    with engine.begin() as connection:
        head = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    expected = (
        rf"catalog.db is at revision 9999, and this version of Springline supports "
        rf"revisions up to {head}: .* restore an older backup"
    )
    with pytest.raises(CatalogVersionError, match=expected):
        open_database(url)
    plain = create_engine(url)
    with plain.begin() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "9999"
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{head}'")
    plain.dispose()
    open_database(url).dispose()


@pytest.mark.parametrize("url", ["sqlite:///{folder}/new/home/catalog.db", "sqlite://"])
def test_a_new_catalog_is_made_with_its_folder_or_in_memory(tmp_path: Path, url: str) -> None:
    """A home folder that is not there yet is no error, nor is a catalog without a file that could be locked."""
    assert "generation" in inspect(open_database(url.format(folder=tmp_path))).get_table_names()


@pytest.mark.parametrize("attempt", range(8))
def test_processes_that_open_a_new_database_at_once_make_it_once(tmp_path: Path, attempt: int) -> None:
    """The first one migrates, the others wait for it, and none finds it locked."""
    processes = multiprocessing.get_context("fork")
    barrier, ends = processes.Barrier(6), processes.Queue()
    url = f"sqlite:///{tmp_path}/catalog.db"
    openers = [processes.Process(target=_open, args=(url, barrier, ends)) for _ in range(6)]
    for opener in openers:
        opener.start()
    assert [ends.get(timeout=60) for _ in openers] == [1] * 6
    for opener in openers:
        opener.join()


class Away:
    """An engine whose server does not answer the first few times."""

    def __init__(self, engine: Engine, times: int) -> None:
        self.engine = engine
        self.times = times
        self.url = engine.url

    def connect(self) -> Connection:
        self.times -= 1
        if self.times >= 0:
            raise OperationalError("connect", {}, Exception("connection refused"))
        return self.engine.connect()


def test_a_transaction_waits_for_a_database_that_is_away_as_long_as_its_patience() -> None:
    """It begins once the server is back; without patience it says at once that it is not there."""
    database = Database("sqlite://", timeout=60)
    engine = database.engine
    database.engine = Away(engine, 2)  # type: ignore[assignment]
    assert database.now() > 0
    database.engine = Away(engine, 2)  # type: ignore[assignment]
    with pytest.raises(CatalogUnavailableError, match=r"sqlite.* does not answer: connection refused"):
        database.read_transaction(timeout=0).__enter__()


NOBODY = "postgresql+psycopg://ann@127.0.0.1:1/catalog"


def test_opening_a_catalog_whose_server_is_away_waits_for_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as its patience, and not at all for what no waiting mends: a refusal, or a folder that is no database."""
    with pytest.raises(CatalogUnavailableError, match=r"the catalog at .*127\.0\.0\.1:1.* does not answer: .*refused"):
        Database(NOBODY)
    monkeypatch.setattr(database.time, "sleep", raise_(InterruptedError("waits")))
    with pytest.raises(InterruptedError, match="waits"):
        Database(NOBODY, timeout=60)
    with pytest.raises(CatalogUnavailableError, match="unable to open database file"):
        Database(f"sqlite:///{tmp_path}", timeout=60)
    monkeypatch.setattr(database, "_REFUSALS", ("refused",))
    with pytest.raises(CatalogUnavailableError):
        Database(NOBODY, timeout=60)


@pytest.mark.parametrize(
    ("url", "options_of_url"), [(NOBODY, {"connect_timeout": 10}), (f"{NOBODY}?connect_timeout=1", {})]
)
def test_a_server_that_says_nothing_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, url: str, options_of_url: dict[str, int]
) -> None:
    """After ten seconds, or after those of the URL."""
    arguments: dict[str, Any] = {}

    def create(*args: Any, **options: Any) -> Engine:
        arguments.update(options)
        return create_engine(*args, **options)

    monkeypatch.setattr(database, "create_engine", create)
    with pytest.raises(CatalogUnavailableError):
        open_database(url)
    assert arguments["connect_args"] == options_of_url


def test_other_troubles_of_a_database_are_not_taken_for_its_absence() -> None:
    """A wrong statement stays what it is."""
    database = Database("sqlite://")
    with pytest.raises(OperationalError, match="no such table"), database.read_transaction() as connection:
        connection.exec_driver_sql("SELECT * FROM nowhere")
