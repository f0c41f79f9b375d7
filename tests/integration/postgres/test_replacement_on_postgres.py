"""What tests/unit/persistence/engine/test_replacement.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_replacement import *  # noqa: F403
