"""What tests/unit/persistence/catalog/test_catalog.py says holds on PostgreSQL too."""

from tests.unit.persistence.catalog.test_catalog import *  # noqa: F403
