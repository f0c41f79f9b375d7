"""What tests/unit/test_risks.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.test_risks import *  # noqa: F403
