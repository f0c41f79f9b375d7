"""What tests/unit/persistence/engine/test_store_faults.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_store_faults import *  # noqa: F403
