"""What tests/unit/persistence/test_restoring.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_restoring import *  # noqa: F403
