"""What tests/unit/test_store.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.test_store import *  # noqa: F403
