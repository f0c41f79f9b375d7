"""Datasets of two DAGs, of which a user may read one only."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from springline.persistence.model.dataset import Origin, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make

ETL = Origin("etl", "day 1", "clean")
OTHER = Origin("other", "day 1", "count")


def make_chain(platform: Platform) -> None:
    """`raw` is persisted; `clean` was made of it, and by another DAG `count` of that."""
    make(platform, "etl/raw", "load", origin=ETL, strategy=Strategy.CACHE_THROUGH)
    make(platform, "etl/clean", "shout", ["etl/raw"], origin=ETL)
    make(platform, "other/count", "count", ["etl/clean"], origin=OTHER)


def remove_copies(platform: Platform, *paths: str) -> None:
    """The bytes of datasets go from the cache, and the catalog has not noticed."""
    for path in paths:
        platform.cache.delete(platform.catalog.resolve(path).cache_location)


def lose(platform: Platform, *paths: str) -> None:
    """The bytes of datasets go from the cache, and the platform notices."""
    remove_copies(platform, *paths)
    platform.maintenance.scan()


def refuse(monkeypatch: pytest.MonkeyPatch, method: str, dag_id: str) -> None:
    """No user may do this with this DAG."""
    monkeypatch.setattr(
        SimpleAuthManager, "is_authorized_dag",
        lambda self, **asked: (asked["method"], getattr(asked["details"], "id", "")) != (method, dag_id),
    )  # fmt: skip


def allow_only(monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    """No user may do anything with any other DAG."""
    monkeypatch.setattr(
        SimpleAuthManager, "is_authorized_dag", lambda self, **asked: getattr(asked["details"], "id", "") == dag_id
    )
