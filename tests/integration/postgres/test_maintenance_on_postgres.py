"""What tests/unit/persistence/engine/test_maintenance.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_maintenance import *  # noqa: F403
