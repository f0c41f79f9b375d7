"""Airflow knows Springline as a provider: its type of Connection, and whether a store answers."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from springline.airflow.connections import CACHE, overrides
from springline.airflow.hooks import StoreHook
from springline.airflow.provider import STORE_TYPE


def test_airflow_finds_the_provider_and_the_fields_of_its_connection():
    """By the entry point of the installed package."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.providers["springline"].data["name"] == "Springline"
    manager.initialize_providers_hooks()
    hook = manager.hooks[STORE_TYPE]
    assert hook is not None and hook.hook_name == "Springline store"
    fields = {name for name in manager.connection_form_widgets if STORE_TYPE in name}
    assert fields == {f"extra__{STORE_TYPE}__{name}" for name in ("capacity", "bandwidth", "options")}


def test_a_connection_of_this_type_gives_a_store_with_its_sizes(tmp_path):
    """Sizes as a person writes them."""
    from springline.persistence.settings import Settings

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
