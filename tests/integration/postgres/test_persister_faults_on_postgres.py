"""What tests/unit/persistence/engine/test_persister_faults.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_persister_faults import *  # noqa: F403
