"""What tests/unit/persistence/engine/test_persister.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_persister import *  # noqa: F403
