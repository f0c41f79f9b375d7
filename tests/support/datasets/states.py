"""Looks at a platform's state, and faults that are put into it: damage, loss, leases that ran out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sqlalchemy import select, update

from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.model.dataset import ExecutionSide, Ref
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform

_COPY = re.compile(r"^@\d+")


def events_of(platform: Platform, ref: Ref) -> list[str]:
    """What happened to a generation, event by event."""
    return [moment.event for moment in platform.catalog.history(ref)]


def copies_in(backend: Backend) -> list[str]:
    """Every copy of a generation in a store, whole or half, as locations."""
    root: Path = backend.root  # type: ignore[attr-defined]
    paths = (path for path in root.rglob("*") if path.is_dir() and _COPY.match(path.name))
    return sorted(path.relative_to(root).as_posix() for path in paths)


def damage(backend: Backend, location: str) -> None:
    """Change a byte of the first file, its size as before."""
    file = backend.files(location)[0]
    path = backend.root / location / file.name  # type: ignore[attr-defined]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def wipe_cache(platform: Platform) -> None:
    """Delete the whole cache folder."""
    shutil.rmtree(platform.cache.root, ignore_errors=True)  # type: ignore[attr-defined]


def lose_cache(platform: Platform) -> None:
    """Delete the whole cache folder, and notice what was lost."""
    wipe_cache(platform)
    platform.maintenance.scan()


def lose_catalog(platform: Platform) -> None:
    """Lose the catalog's database with everything in it; the platform is closed, and a new one finds it empty."""
    if platform.catalog.engine.dialect.name == "postgresql":
        with platform.catalog.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    platform.close()
    for file in platform.settings.home.glob("catalog.db*"):
        file.unlink()


def expire_leases(platform: Platform) -> None:
    """Make every lease run out now."""
    _set(platform, lease_until=db_now() - 1)


def end_pauses(platform: Platform) -> None:
    """Make what failed claimable again now."""
    _set(platform, not_before=0.0)


def let_go(platform: Platform, ref: Ref) -> None:
    """Evict a generation, whatever the rules say."""
    dataset = platform.catalog.change(ref, Event.EVICTED, reason="by the test")
    platform.cache.delete(dataset.cache_location)


def measured(platform: Platform, operation: str, *, run: float, send: float) -> None:
    """Have measured that `operation` takes `run` seconds below, and the link `send` seconds, for a thousand bytes."""
    for _ in range(5):
        platform.catalog.record_measurement(operation, ExecutionSide.STORAGE, bytes_in=1000, seconds=run)
        platform.catalog.record_measurement("", ExecutionSide.STORAGE, bytes_in=1000, seconds=send)


def pause_of(platform: Platform, ref: Ref) -> float:
    """Seconds until a generation may be claimed again."""
    this = (generation.c.path == ref.path) & (generation.c.generation == ref.generation)
    with platform.catalog.read_transaction() as connection:
        return float(connection.scalar(select(generation.c.not_before - db_now()).where(this)) or 0.0)


def _set(platform: Platform, **columns: object) -> None:
    with platform.catalog.write_transaction() as connection:
        connection.execute(update(generation).values(**columns))
