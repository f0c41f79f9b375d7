"""Airflow's connections name the servers, and the provider brings a type of them; else the settings stand."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from springline.airflow.connections import CACHE, CATALOG, UNDER, find_connection, overrides, spark_remote
from springline.airflow.hooks import StoreHook
from springline.airflow.provider import STORE_TYPE
from springline.persistence.errors import PersistenceError
from springline.persistence.settings import Settings

CONNECTIONS = (
    Connection(conn_id=CATALOG, conn_type="postgres", host="db", port=5433, schema="a", login="me", password="p@ss/w"),
    Connection(conn_id=CACHE, conn_type="fs", extra='{"path": "/dev/shm/a b", "capacity": 1000}'),
    Connection(
        conn_id=UNDER, conn_type="hdfs", host="name", port=8020, extra='{"bandwidth": 5e6, "options": {"a": "b"}}'
    ),
)


def test_connections_name_the_catalog_and_the_stores_and_without_any_the_settings_stand():
    """Letters that mean something in a URL are quoted, also those of a secret.

    A store is a file path, or the server's own scheme, with capacity, bandwidth and the options of its kind as extras.
    """
    assert overrides({}.get) == {} and spark_remote({}.get) == ""
    assert find_connection("springline_catalog") is None
    assert overrides({connection.conn_id: connection for connection in CONNECTIONS}.get) == {
        "catalog_url": "postgresql+psycopg://me:p%40ss%2Fw@db:5433/a",
        "cache_uri": "/dev/shm/a b",
        "cache_capacity": 1000,
        "under_uri": "hdfs://name:8020/",
        "under_bandwidth": 5e6,
        "under_options": {"a": "b"},
    }


def test_a_connection_of_airflows_amazon_provider_is_an_s3_with_its_credentials():
    """Under the names that the provider has for them; without a bucket it is refused."""
    extra = '{"endpoint_url": "http://s3:9000", "region_name": "eu-1", "options": {"retry_seconds": 3}, "capacity": 5}'
    connection = Connection(conn_id=UNDER, conn_type="aws", login="me", password="p", schema="a b/c", extra=extra)
    assert overrides({UNDER: connection}.get) == {
        "under_uri": "s3://a%20b/c",
        "under_capacity": 5,
        "under_options": {
            "key": "me", "secret": "p", "endpoint_url": "http://s3:9000", "region": "eu-1", "retry_seconds": "3",
        },
    }  # fmt: skip
    with pytest.raises(PersistenceError, match=r"springline_under: give bucket/prefix as schema"):
        overrides({UNDER: Connection(conn_id=UNDER, conn_type="aws")}.get)


def test_the_spark_connection_gives_its_address_and_token(monkeypatch):
    """The Spark provider's own type of connection is read."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPRINGLINE_SPARK",
        '{"conn_type": "spark_connect", "host": "sc://spark", "port": 15003, "password": "secret"}',
    )
    assert spark_remote() == "sc://spark:15003/;token=secret"


@pytest.mark.parametrize(
    ("connection", "expected_message"),
    [
        (Connection(conn_id=CATALOG, conn_type="mysql", host="db"), "springline_catalog"),
        (Connection(conn_id=UNDER, conn_type="fs", extra='{"path": "under"}'), r"springline_under.*absolute"),
    ],
)
def test_another_database_and_a_relative_folder_are_refused(connection, expected_message):
    """The error names the connection."""
    with pytest.raises(PersistenceError, match=expected_message):
        overrides({connection.conn_id: connection}.get)


# ---- the provider


def test_airflow_finds_the_provider_and_the_fields_of_its_connection(tmp_path):
    """By the entry point of the installed package; sizes in such a connection are as a person writes them."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.providers["springline"].data["name"] == "Springline"
    manager.initialize_providers_hooks()
    hook = manager.hooks[STORE_TYPE]
    assert hook is not None and hook.hook_name == "Springline store"
    fields = {name for name in manager.connection_form_widgets if STORE_TYPE in name}
    assert fields == {f"extra__{STORE_TYPE}__{name}" for name in ("capacity", "bandwidth", "options")}
    connection = Connection(conn_id=CACHE, conn_type=STORE_TYPE, host=tmp_path.as_uri(), extra='{"capacity": "8GB"}')
    settings = Settings(**overrides({CACHE: connection}.get))
    assert (settings.cache_uri, settings.cache_capacity) == (tmp_path.as_uri(), 8_000_000_000)


@pytest.mark.parametrize(
    ("uri", "answers", "expected_message"),
    [
        ("file://{}", True, "answers"),
        ("file://{}/gone", False, "gone"),
        ("ftp://host/x", False, "no installed package provides 'ftp'"),
    ],
)
def test_a_store_is_asked_whether_it_answers(tmp_path, monkeypatch, uri, answers, expected_message):
    """As the button on the page of a Connection does; nothing is made by that."""
    connection = Connection(conn_id=CACHE, conn_type=STORE_TYPE, host=uri.format(tmp_path))
    monkeypatch.setattr(StoreHook, "get_connection", lambda self, name: connection)
    answered, message = StoreHook().test_connection()
    assert answered is answers and expected_message in message
    assert list(tmp_path.iterdir()) == []
