"""What tests/unit/persistence/engine/test_maintenance.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_maintenance import *  # noqa: F403
