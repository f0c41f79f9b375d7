"""Opens the catalog's database: SQLite by default, PostgreSQL in service, both brought up to date first."""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from springline.persistence.catalog.schema import db_now
from springline.persistence.errors import CatalogUnavailableError, CatalogVersionError, UsageError
from springline.persistence.private_files import private_file
from springline.persistence.text.formatting import say_seconds
from springline.persistence.text.redaction import redacted

logger = logging.getLogger("springline.catalog")

_MIGRATIONS = Path(__file__).parent / "migrations"
_ASK_SECONDS = 0.2  # how often a database that is away is asked again
_CONNECT_SECONDS = 10  # for a server to answer at all, unless the URL gives `connect_timeout`
_REFUSALS = ("password authentication failed", "does not exist", "no pg_hba.conf entry")  # no waiting mends these
_MIGRATION_LOCK = 7_331_944  # any number of our own; names the advisory lock on PostgreSQL


class Database:
    """A connection to the catalog's database, for the parts that work on its tables.

    Opening it, or a transaction that cannot begin because the database is away, waits for it, up to `patience`
    seconds; one whose database goes away in its middle, or does not come back, raises `CatalogUnavailableError`.
    """

    def __init__(self, url: str, *, patience: float = 0.0) -> None:
        self.engine = open_database(url, patience=patience)
        self.patience = patience

    @contextmanager
    def reading(self, *, patience: float | None = None) -> Iterator[Connection]:
        """A transaction that only reads."""
        with self._connected(patience) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; on SQLite it holds the write lock from its start."""
        with self._connected(None) as connection, connection.execution_options(writes=True).begin():
            yield connection

    @contextmanager
    def _connected(self, patience: float | None) -> Iterator[Connection]:
        with (
            _saying_who_is_away(self.engine),
            _connect(self.engine, self.patience if patience is None else patience) as connection,
        ):
            yield connection

    def now(self) -> float:
        """The database's clock, in seconds since 1970."""
        with self.reading() as connection:
            return float(connection.scalar(select(db_now())) or 0.0)


def open_database(url: str, *, patience: float = 0.0) -> Engine:
    """An engine on a database whose tables are those of `springline.persistence.catalog.schema`.

    A server that is away is waited for, up to `patience` seconds.
    SQLite runs in WAL mode; a connection with the execution option `writes` takes its write
    lock at once (BEGIN IMMEDIATE), so that two writers queue up rather than fail.
    Raises `CatalogVersionError`, `CatalogUnavailableError`, and `PersistenceError` for an address that cannot be used.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite":
        timeout = {} if "connect_timeout" in parsed.query else {"connect_timeout": _CONNECT_SECONDS}
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=timeout)
        _migrate(engine, patience)
        return engine
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # which the first connection tells
            private_file(Path(parsed.database))  # SQLite gives the files beside it the same rights
    engine = create_engine(parsed, connect_args={"timeout": 60, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _configure(connection, _record) -> None:  # type: ignore[no-untyped-def]
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "cache_size=-65536"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    _migrate(engine, 0.0)  # a file that cannot be opened will not be there later either
    return engine


@contextmanager
def _saying_who_is_away(engine: Engine) -> Iterator[None]:
    """Turn the error of a connection that broke, or never came to be, into `CatalogUnavailableError`."""
    try:
        yield
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise CatalogUnavailableError(f"{_away(engine, error)}; is it running?") from error


def _away(engine: Engine, error: DBAPIError) -> str:
    said = " ".join(str(error.orig).split())  # which may be several lines
    return f"the catalog at {redacted(engine.url.render_as_string())} does not answer: {redacted(said)}"


def _connect(engine: Engine, patience: float) -> Connection:
    until = time.monotonic() + patience
    waits = False
    while True:
        try:
            return engine.connect()
        except OperationalError as error:
            if time.monotonic() >= until or any(told in str(error.orig) for told in _REFUSALS):
                error.connection_invalidated = True
                raise
            if not waits:
                logger.warning("%s; asking again for %s", _away(engine, error), say_seconds(patience))
                waits = True
            time.sleep(_ASK_SECONDS)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        raise UsageError(
            f"SPRINGLINE_CATALOG_URL, or the connection of the catalog, begins with {parsed.drivername}://, and "
            f"{error.name} is not installed: write postgresql+psycopg://…"
        ) from None
    except (ArgumentError, ValueError):  # which may hold a part of the password
        raise UsageError(
            "SPRINGLINE_CATALOG_URL, or the connection of the catalog, is no address of a database: write "
            "postgresql+psycopg://user:password@host:port/database, with %40 for an @ in the password"
        ) from None
    return parsed


def migration_config() -> Config:
    """Alembic's configuration for the migrations of this package."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def _migrate(engine: Engine, patience: float) -> None:
    scripts = ScriptDirectory.from_config(migration_config())
    head = scripts.get_current_head()
    # Even the first connection waits for its turn: two that switch a new SQLite file to WAL lock each other out.
    with _saying_who_is_away(engine), _one_at_a_time(engine, patience):
        with _connect(engine, patience) as connection:
            found = MigrationContext.configure(connection).get_current_revision()
        if found == head:
            return
        if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
            raise CatalogVersionError(
                f"the catalog at {engine.url.render_as_string()} is at revision {found}, and this code knows revisions "
                f"up to {head}: newer code has opened it. Go on with that code, or put back a backup from before it"
            )
        with _connect(engine, patience).execution_options(writes=True) as connection, connection.begin():
            config = migration_config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


@contextmanager
def _one_at_a_time(engine: Engine, patience: float) -> Iterator[None]:
    if engine.dialect.name == "postgresql":
        with _connect(engine, patience) as connection, connection.begin():
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            yield
        return
    database = engine.url.database
    if not database or database == ":memory:":
        yield
        return
    with private_file(Path(f"{database}.lock")).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
