"""What tests/unit/test_rebuilding.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.test_rebuilding import *  # noqa: F403
