"""What tests/unit/persistence/test_catalog.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_catalog import *  # noqa: F403
