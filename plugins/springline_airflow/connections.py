"""Airflow Connections name the servers and hold their secrets; for those that are not defined, the settings apply.

| Connection | type | content |
|---|---|---|
| `springline_spark` | spark_connect | the Spark Connect server |
| `springline_catalog` | postgres, sqlite | the catalog's database |
| `springline_cache` | file path, or the server's own | the cache; extra: `capacity`, `options` |
| `springline_under` | file path, aws, the server's own | the under-store; extra: `capacity`, `bandwidth`, `options` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from sqlalchemy import URL

from springline.persistence.errors import UsageError

SPARK = "springline_spark"
CATALOG = "springline_catalog"
CACHE = "springline_cache"
UNDER = "springline_under"
_AWS = "aws"  # the type of Airflow's Amazon provider


class Connection(Protocol):
    """The attributes that are read from one of Airflow's connections."""

    conn_type: str
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]: ...


Lookup = Callable[[str], Connection | None]


def find_connection(name: str) -> Connection | None:
    """Return the connection of this name, or None if it is not defined."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        raw_connection: Any = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    connection: Connection = raw_connection
    return connection


def overrides(lookup: Lookup = find_connection) -> dict[str, Any]:
    """Return the settings of `persistence` that connections define; only those that are defined."""
    settings: dict[str, Any] = {}
    if catalog := lookup(CATALOG):
        settings["catalog_url"] = database_url(catalog)
    for name, role, extras in (
        (CACHE, "cache", ("capacity", "options")),
        (UNDER, "under", ("capacity", "bandwidth", "options")),
    ):
        if connection := lookup(name):
            settings[f"{role}_uri"] = store_uri(name, connection)
            extra = connection.extra_dejson
            settings.update({f"{role}_{key}": extra[key] for key in extras if key in extra})
            if connection.conn_type == _AWS:
                settings[f"{role}_options"] = _aws_options(connection)
    return settings


def _aws_options(connection: Connection) -> dict[str, str]:
    """Return the options of S3 in a Connection of Airflow's Amazon provider, by its names for them or by ours."""
    extra = connection.extra_dejson
    options = {
        "key": connection.login, "secret": connection.password, "token": extra.get("aws_session_token"),
        "endpoint_url": extra.get("endpoint_url"), "region": extra.get("region_name"), **(extra.get("options") or {}),
    }  # fmt: skip
    return {name: str(value) for name, value in options.items() if value}


def spark_remote(lookup: Lookup = find_connection) -> str:
    """Return the Spark Connect URL of the connection, with its user and token; empty if it is not defined."""
    if lookup(SPARK) is None:
        return ""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    return str(SparkConnectHook(SPARK).get_connection_url())


def database_url(connection: Connection) -> str:
    """Return the SQLAlchemy URL of a database; raises `UsageError` for a type that is not supported."""
    if connection.conn_type == "sqlite":
        return URL.create("sqlite", database=connection.host or connection.schema).render_as_string()
    if connection.conn_type not in ("postgres", "postgresql"):
        raise UsageError(f"connection {CATALOG}: unsupported type {connection.conn_type!r}; use postgres or sqlite")
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
    """Return the URI of a cache or an under-store, or the path of its folder."""
    host = connection.host or ""
    if "://" in host:
        return host
    if connection.conn_type == _AWS:
        if not connection.schema:
            raise UsageError(f"connection {name}: give bucket/prefix as schema")
        return f"s3://{quote(connection.schema)}"
    if connection.conn_type in ("fs", "file"):
        path = str(connection.extra_dejson.get("path") or host)
        if not path.startswith("/"):
            raise UsageError(f"connection {name}: give an absolute path, as extra `path` or as host")
        return path
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.conn_type}://{host}{port}/{quote(connection.schema or '')}"
