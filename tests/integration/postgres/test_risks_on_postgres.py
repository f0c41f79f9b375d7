"""What tests/unit/persistence/decisions/test_risks.py says holds on PostgreSQL too."""

from tests.unit.persistence.decisions.test_risks import *  # noqa: F403
