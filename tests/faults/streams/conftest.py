"""The real servers of the integration suite, for streams that something goes wrong in."""

from tests.integration.conftest import kafka, service_settings, spark, start, supervisor

__all__ = ["kafka", "service_settings", "spark", "start", "supervisor"]
