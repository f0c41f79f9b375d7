"""What tests/unit/persistence/engine/test_persister.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_persister import *  # noqa: F403
