"""What tests/property/datasets/test_interleavings.py says, on PostgreSQL: each schedule on a catalog of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from springline.persistence.platform import Platform
from springline.services.servers.postgres import database_url
from tests.property.datasets import test_interleavings
from tests.property.datasets.test_interleavings import (  # noqa: F401  the test itself
    test_however_they_interleave_each_generation_is_persisted_once_and_nothing_half_is_left,
)
from tests.support.datasets.states import measured
from tests.support.servers.servers import Running

pytestmark = pytest.mark.nightly("each schedule runs on a catalog of its own")


@pytest.fixture
def template(postgres: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog_url: str) -> Iterator[Path]:
    """A catalog that knows what takes how long, of which each example gets a copy."""
    server = database_url(postgres.settings, "springline", "postgresql")
    template_name = catalog_url.partition("?")[0].rpartition("/")[2]
    plain, count = test_interleavings.open_in, 0

    def open_in(folder: Path, *, by_operation: bool) -> Platform:
        nonlocal count
        count += 1
        name = f"{template_name}_{count}"
        with psycopg.connect(server, autocommit=True) as connection:
            if count > 1:
                connection.execute(f"DROP DATABASE {template_name}_{count - 1} WITH (FORCE)")  # type: ignore[call-overload]
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template_name}")  # type: ignore[call-overload]
        return plain(folder, by_operation=by_operation, catalog_url=database_url(postgres.settings, name))

    platform = plain(tmp_path, by_operation=False, catalog_url=catalog_url)
    measured(platform, "shout", run=0.001, send=10.0)
    platform.close()
    (tmp_path / "home").mkdir(exist_ok=True)
    monkeypatch.setattr(test_interleavings, "open_in", open_in)
    yield tmp_path
