"""What tests/unit/persistence/engine/test_catalog_rebuild.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.engine.test_catalog_rebuild import *  # noqa: F403
