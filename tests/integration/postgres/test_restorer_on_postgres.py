"""What tests/unit/persistence/engine/test_restorer.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_restorer import *  # noqa: F403
