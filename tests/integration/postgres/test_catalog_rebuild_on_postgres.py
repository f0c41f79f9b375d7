"""What tests/unit/persistence/engine/test_catalog_rebuild.py says holds on PostgreSQL too."""

from tests.unit.persistence.engine.test_catalog_rebuild import *  # noqa: F403
