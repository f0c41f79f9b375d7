"""What tests/unit/persistence/test_risks.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.persistence.test_risks import *  # noqa: F403
