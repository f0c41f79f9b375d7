"""The real servers of the integration suite, for streams that something goes wrong in."""

from tests.integration.conftest import kafka, service_settings, spark, start, supervisor
from tests.integration.streams.conftest import make_job, make_words

__all__ = ["kafka", "make_job", "make_words", "service_settings", "spark", "start", "supervisor"]
