"""What tests/unit/persistence/engine/test_table_writer.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_table_writer import *  # noqa: F403
