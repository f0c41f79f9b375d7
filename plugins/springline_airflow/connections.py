"""Airflow's Connections name the servers and hold their secrets; where one is not defined, the settings stand.

| Connection | type | says |
|---|---|---|
| `springline_spark` | spark_connect | the Spark Connect server |
| `springline_catalog` | postgres, sqlite | the catalog's database |
| `springline_cache` | file path, or the server's own | the cache; extra: `capacity`, `options` |
| `springline_under` | file path, or the server's own | the under-store; extra: `capacity`, `bandwidth`, `options` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL

from springline.persistence.errors import UsageError

SPARK = "springline_spark"
CATALOG = "springline_catalog"
CACHE = "springline_cache"
UNDER = "springline_under"


class Connection(Protocol):
    """What is read of one of Airflow's connections."""

    conn_type: str
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]: ...


Lookup = Callable[[str], Connection | None]


def defined(name: str) -> Connection | None:
    """The connection of this name, or None if it is not defined."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        found: Any = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    connection: Connection = found
    return connection


def overrides(lookup: Lookup = defined) -> dict[str, Any]:
    """The settings of `persistence` that connections give; only those that are defined."""
    found: dict[str, Any] = {}
    if catalog := lookup(CATALOG):
        found["catalog_url"] = database_url(catalog)
    for name, role, extras in (
        (CACHE, "cache", ("capacity", "options")),
        (UNDER, "under", ("capacity", "bandwidth", "options")),
    ):
        if connection := lookup(name):
            found[f"{role}_uri"] = store_uri(name, connection)
            extra = connection.extra_dejson
            found.update({f"{role}_{key}": extra[key] for key in extras if key in extra})
    return found


def spark_remote(lookup: Lookup = defined) -> str:
    """The Spark Connect URL that the connection gives, with its user and token; empty where it is not defined."""
    if lookup(SPARK) is None:
        return ""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    return str(SparkConnectHook(SPARK).get_connection_url())


def database_url(connection: Connection) -> str:
    """The SQLAlchemy URL of a database; raises `PersistenceError` for one that the catalog cannot be on."""
    if connection.conn_type == "sqlite":
        return f"sqlite:///{connection.host or connection.schema}"
    if connection.conn_type not in ("postgres", "postgresql"):
        raise UsageError(f"connection {CATALOG}: type {connection.conn_type!r}; give postgres or sqlite")
    url = URL.create(
        "postgresql+psycopg",
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
    )
    return url.render_as_string(hide_password=False)


def store_uri(name: str, connection: Connection) -> str:
    """The URI of a cache or an under-store."""
    host = connection.host or ""
    if "://" in host:
        return host
    if connection.conn_type in ("fs", "file"):
        path = str(connection.extra_dejson.get("path") or host)
        if not path.startswith("/"):
            raise UsageError(f"connection {name}: give an absolute path, as extra `path` or as host")
        return Path(path).as_uri()
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.conn_type}://{host}{port}/{connection.schema or ''}"
