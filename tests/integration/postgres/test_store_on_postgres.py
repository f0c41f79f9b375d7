"""What tests/unit/persistence/engine/test_store.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_store import *  # noqa: F403
