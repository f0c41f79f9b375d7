"""What tests/unit/persistence/test_rebuilding.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_rebuilding import *  # noqa: F403
