"""What tests/unit/persistence/catalog/test_claims.py says holds on PostgreSQL too."""

from tests.unit.persistence.catalog.test_claims import *  # noqa: F403
