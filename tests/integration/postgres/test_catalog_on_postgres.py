"""What tests/unit/test_catalog.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.test_catalog import *  # noqa: F403
