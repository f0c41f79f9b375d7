"""Airflow's connections: they name the servers, and the settings stand where they are not defined."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from springline.airflow.connections import CACHE, CATALOG, UNDER, find_connection, overrides, spark_remote
from springline.persistence.errors import PersistenceError


def lookup_of(**connections):
    """A lookup over these connections."""
    return connections.get


def test_without_connections_the_settings_stand():
    """Nothing is overridden."""
    assert overrides(lookup_of()) == {}
    assert find_connection("springline_catalog") is None
    assert spark_remote(lookup_of()) == ""


def test_a_postgres_connection_gives_the_catalogs_url_with_its_secret():
    """Letters that mean something in a URL are quoted."""
    connection = Connection(
        conn_id=CATALOG, conn_type="postgres", host="db", port=5433, schema="lineage", login="me", password="p@ss/word"
    )
    url = overrides(lookup_of(springline_catalog=connection))["catalog_url"]
    assert url == "postgresql+psycopg://me:p%40ss%2Fword@db:5433/lineage"


def test_a_catalog_on_another_database_is_refused():
    """The error names the connection."""
    connection = Connection(conn_id=CATALOG, conn_type="mysql", host="db")
    with pytest.raises(PersistenceError, match="springline_catalog"):
        overrides(lookup_of(springline_catalog=connection))


def test_stores_are_folders_or_servers():
    """A file path, or the server's own scheme, with capacity, bandwidth and the options of its kind as extras."""
    cache = Connection(conn_id=CACHE, conn_type="fs", extra='{"path": "/dev/shm/a b", "capacity": 1000}')
    under = Connection(
        conn_id=UNDER, conn_type="hdfs", host="name", port=8020, extra='{"bandwidth": 5e6, "options": {"a": "b"}}'
    )
    assert overrides(lookup_of(springline_cache=cache, springline_under=under)) == {
        "cache_uri": "file:///dev/shm/a%20b",
        "cache_capacity": 1000,
        "under_uri": "hdfs://name:8020/",
        "under_bandwidth": 5e6,
        "under_options": {"a": "b"},
    }


def test_a_relative_folder_is_refused():
    """The error names the connection."""
    with pytest.raises(PersistenceError, match=r"springline_under.*absolute"):
        overrides(lookup_of(springline_under=Connection(conn_id=UNDER, conn_type="fs", extra='{"path": "under"}')))


def test_the_spark_connection_gives_its_address_and_token(monkeypatch):
    """The Spark provider's own type of connection is read."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPRINGLINE_SPARK",
        '{"conn_type": "spark_connect", "host": "sc://spark", "port": 15003, "password": "secret"}',
    )
    assert spark_remote() == "sc://spark:15003/;token=secret"
