"""The API in the real API server: where it is mounted, and who gets in."""

from __future__ import annotations

import httpx
import pytest

from springline.airflow.api import PREFIX
from springline.services.servers.airflow import USER, password


@pytest.fixture
def client(live):
    """A client without a token."""
    with httpx.Client(base_url=live.environment["AIRFLOW__API__BASE_URL"], timeout=120) as client:
        yield client


def test_the_api_server_serves_the_api_to_users_only(live, client):
    """Its schema too; here no jobs are declared."""
    login = {"username": USER, "password": password(live.home)}
    admin = {"Authorization": f"Bearer {client.post('/auth/token', json=login).json()['access_token']}"}
    for path in ("streams", "streams/flights", "openapi.json"):
        body = client.get(f"{PREFIX}/api/v1/{path}")
        assert (body.status_code, body.json()["error"]) == (401, "Unauthorized")
    assert client.get(f"{PREFIX}/api/v1/streams", headers=admin).json() == {"streams": []}
    assert client.get(f"{PREFIX}/api/v1/streams/flights", headers=admin).json()["error"] == "UnknownJobError"
    body = client.get(f"{PREFIX}/api/v1/openapi.json", headers=admin).json()
    assert body["servers"] == [{"url": PREFIX}] and "/api/v1/streams/{job}/ask" in body["paths"]
