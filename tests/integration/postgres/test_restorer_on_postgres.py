"""What tests/unit/persistence/engine/test_restorer.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_restorer import *  # noqa: F403
