"""The real servers of the integration suite, for streams that something goes wrong in."""

from tests.integration.conftest import kafka, service_settings, spark, start, supervisor
from tests.integration.streams.conftest import make_job

__all__ = ["kafka", "make_job", "service_settings", "spark", "start", "supervisor"]
