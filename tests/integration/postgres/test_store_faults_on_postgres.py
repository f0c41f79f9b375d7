"""What tests/unit/persistence/engine/test_store_faults.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_store_faults import *  # noqa: F403
