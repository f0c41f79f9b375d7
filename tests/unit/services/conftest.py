"""Servers that end with their test."""

import pytest

from springline.services.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path):
    """A supervisor whose servers are ended with the test."""
    supervisor = Supervisor(tmp_path, say=lambda _: None)
    yield supervisor
    for name in supervisor.started_servers():
        supervisor.down(name, 1.0)
