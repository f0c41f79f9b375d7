"""What tests/unit/test_claims.py says holds on PostgreSQL too."""

from __future__ import annotations

from tests.unit.test_claims import *  # noqa: F403
