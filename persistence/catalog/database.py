"""Opens the catalog's database, SQLite by default or PostgreSQL, and migrates it to the current revision first."""

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
from sqlalchemy.exc import DBAPIError, OperationalError

from springline.persistence.catalog.schema import db_now
from springline.persistence.errors import CatalogUnavailableError, CatalogVersionError, UsageError
from springline.persistence.private_files import create_private_file
from springline.persistence.text.formatting import format_seconds
from springline.persistence.text.redaction import redact_secrets

logger = logging.getLogger("springline.catalog")

_MIGRATIONS = Path(__file__).parent / "migrations"
_RETRY_SECONDS = 0.2  # interval between two attempts to connect to an unavailable database
_CONNECT_SECONDS = 10  # connect timeout of a server, unless the URL gives `connect_timeout`
_REFUSALS = ("password authentication failed", "does not exist", "no pg_hba.conf entry")  # not worth a retry
_MIGRATION_LOCK = 7_331_944  # arbitrary key of the advisory lock on PostgreSQL


class Database:
    """A connection to the catalog's database, for the classes that work on its tables.

    Opening it, or beginning a transaction, waits up to `timeout` seconds for an unavailable database. A database that
    becomes unavailable during a transaction, or stays unavailable, raises `CatalogUnavailableError`.
    """

    def __init__(self, url: str | URL, *, timeout: float = 0.0) -> None:
        self.engine = open_database(url, timeout=timeout)
        self.timeout = timeout

    @contextmanager
    def read_transaction(self, *, timeout: float | None = None) -> Iterator[Connection]:
        """Begin a read-only transaction."""
        with self._connection(timeout) as connection, connection.begin():
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """Begin a transaction that writes; on SQLite it holds the write lock from its start."""
        with self._connection(None) as connection, connection.execution_options(writes=True).begin():
            yield connection

    @contextmanager
    def _connection(self, timeout: float | None) -> Iterator[Connection]:
        with (
            _raising_unavailable(self.engine),
            _connect(self.engine, self.timeout if timeout is None else timeout) as connection,
        ):
            yield connection

    def now(self) -> float:
        """Return the database's clock, in seconds since 1970."""
        with self.read_transaction() as connection:
            return float(connection.scalar(select(db_now())) or 0.0)


def open_database(url: str | URL, *, timeout: float = 0.0) -> Engine:
    """Return an engine on a database with the tables of `springline.persistence.catalog.schema`.

    Waits up to `timeout` seconds for an unavailable server.
    SQLite runs in WAL mode; a connection with the execution option `writes` takes its write
    lock at once (BEGIN IMMEDIATE), so that two writers queue up rather than fail.
    Raises `CatalogVersionError`, `CatalogUnavailableError`, and `PersistenceError` for an unusable URL.
    """
    parsed = make_url(url)
    _require_driver(parsed)
    if parsed.get_backend_name() != "sqlite":
        driver_args = {} if "connect_timeout" in parsed.query else {"connect_timeout": _CONNECT_SECONDS}
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=driver_args)
        _migrate(engine, timeout)
        return engine
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # the first connection reports it
            create_private_file(Path(parsed.database))  # SQLite gives the files beside it the same permissions
    engine = create_engine(parsed, connect_args={"timeout": 60, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _configure(connection, _record) -> None:  # type: ignore[no-untyped-def]
        connection.isolation_level = None  # we emit BEGIN ourselves
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "cache_size=-65536"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    _migrate(engine, 0.0)  # a file that cannot be opened now will not become available by waiting
    return engine


@contextmanager
def _raising_unavailable(engine: Engine) -> Iterator[None]:
    """Turn the error of a connection that broke or could not be opened into `CatalogUnavailableError`."""
    try:
        yield
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise CatalogUnavailableError(f"{_unavailable_message(engine, error)}; is it running?") from error


def _unavailable_message(engine: Engine, error: DBAPIError) -> str:
    details = " ".join(str(error.orig).split())  # it may have several lines
    return f"the catalog at {redact_secrets(engine.url.render_as_string())} does not answer: {redact_secrets(details)}"


def _connect(engine: Engine, timeout: float) -> Connection:
    deadline = time.monotonic() + timeout
    has_warned = False
    while True:
        try:
            return engine.connect()
        except OperationalError as error:
            if time.monotonic() >= deadline or any(refusal in str(error.orig) for refusal in _REFUSALS):
                error.connection_invalidated = True
                raise
            if not has_warned:
                logger.warning("%s; retrying for %s", _unavailable_message(engine, error), format_seconds(timeout))
                has_warned = True
            time.sleep(_RETRY_SECONDS)


def _require_driver(url: URL) -> None:
    try:
        url.get_dialect().import_dbapi()
    except ImportError as error:
        raise UsageError(
            f"SPRINGLINE_CATALOG_URL, or the connection of the catalog, begins with {url.drivername}://, and "
            f"{error.name} is not installed: write postgresql+psycopg://…"
        ) from None


def migration_config() -> Config:
    """Return Alembic's configuration for the migrations of this package."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))  # read as a format
    return config


def _migrate(engine: Engine, timeout: float) -> None:
    scripts = ScriptDirectory.from_config(migration_config())
    head = scripts.get_current_head()
    # Even the first connection needs the lock: two that switch a new SQLite file to WAL would block each other.
    with _raising_unavailable(engine), _migration_lock(engine, timeout):
        with _connect(engine, timeout) as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
        if revision == head:
            return
        if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
            raise CatalogVersionError(
                f"the catalog at {redact_secrets(engine.url.render_as_string())} is at revision "
                f"{revision}, and this version of Springline supports revisions "
                f"up to {head}: a newer version has migrated it. Use that version, or restore an older backup"
            )
        with _connect(engine, timeout).execution_options(writes=True) as connection, connection.begin():
            config = migration_config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


@contextmanager
def _migration_lock(engine: Engine, timeout: float) -> Iterator[None]:
    if engine.dialect.name == "postgresql":
        with _connect(engine, timeout) as connection, connection.begin():
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            yield
        return
    database = engine.url.database
    if not database or database == ":memory:":
        yield
        return
    with create_private_file(Path(f"{database}.lock")).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
