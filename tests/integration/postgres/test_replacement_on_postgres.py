"""What tests/unit/persistence/test_replacement.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_replacement import *  # noqa: F403
