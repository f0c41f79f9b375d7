"""Platforms whose catalog is a database of its own on the real PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest

from springline.persistence.catalog.database import open_database
from springline.services.servers.postgres import database_url
from tests.support.servers.servers import Running


@pytest.fixture
def catalog_url(postgres: Running, start: Callable[[str], Running]) -> Iterator[str]:
    """The SQLAlchemy URL of an empty catalog, copied from one that was brought up to date."""
    name = f"catalog_{uuid.uuid4().hex}"
    server = database_url(postgres.settings, "springline", "postgresql")
    with psycopg.connect(server, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'catalog_template'").fetchone():
            # Who is killed loses nothing that the system has; only a power cut would.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE catalog_template")
            open_database(database_url(postgres.settings, "catalog_template")).dispose()
        connection.execute(f"CREATE DATABASE {name} TEMPLATE catalog_template")  # type: ignore[call-overload]
    yield database_url(postgres.settings, name)
    start("postgres")  # a test may have killed it
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]
