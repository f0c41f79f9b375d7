"""What tests/unit/persistence/test_persister.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_persister import *  # noqa: F403
