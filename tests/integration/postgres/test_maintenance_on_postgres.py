"""What tests/unit/persistence/test_maintenance.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_maintenance import *  # noqa: F403
