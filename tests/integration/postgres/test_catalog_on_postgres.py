"""What tests/unit/persistence/catalog/test_catalog.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.catalog.test_catalog import *  # noqa: F403
