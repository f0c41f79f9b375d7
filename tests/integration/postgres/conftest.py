"""Platforms whose catalog is a database of its own on the real PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from persistence.database import open_database
from persistence.platform import Platform, open_platform
from persistence.settings import Settings
from services.servers.postgres import url
from tests.support.lines import LinesRunner
from tests.support.servers import Running


@pytest.fixture
def catalog_url(postgres: Running) -> Iterator[str]:
    """The SQLAlchemy URL of an empty catalog, copied from one that was brought up to date."""
    name = f"catalog_{uuid.uuid4().hex}"
    server = url(postgres.settings, "springline", "postgresql")
    with psycopg.connect(server, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'catalog_template'").fetchone():
            connection.execute("CREATE DATABASE catalog_template")
            open_database(url(postgres.settings, "catalog_template")).dispose()
        connection.execute(f"CREATE DATABASE {name} TEMPLATE catalog_template")  # type: ignore[call-overload]
    yield url(postgres.settings, name)
    postgres.mend()  # a test may have killed it
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]


@pytest.fixture
def open_at(tmp_path: Path, runner: LinesRunner, catalog_url: str) -> Iterator[Callable[..., Platform]]:
    """As everywhere, but on PostgreSQL."""
    opened = []

    def open_(**settings: object) -> Platform:
        chosen = {
            "home": tmp_path / "home",
            "catalog_url": catalog_url,
            "cache_uri": f"file://{tmp_path}/cache",
            "small_bytes": 0,
            "retry_seconds": 0,
            "sync_patience": 0,
        }
        platform = open_platform(Settings(**{**chosen, **settings}), runner=runner, who="test")  # type: ignore[arg-type]
        opened.append(platform)
        return platform

    yield open_
    for platform in opened:
        platform.close()
