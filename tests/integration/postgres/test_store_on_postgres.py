"""What tests/unit/persistence/engine/test_store.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_store import *  # noqa: F403
