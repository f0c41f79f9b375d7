"""The real servers of the integration suite, for streams that something goes wrong in."""

from tests.integration.conftest import hdfs, kafka, postgres, service_settings, spark, start, supervisor
from tests.integration.streams.conftest import make_job, make_join, make_words

__all__ = [
    "hdfs", "kafka", "make_job", "make_join", "make_words", "postgres", "service_settings", "spark", "start",
    "supervisor",
]  # fmt: skip
