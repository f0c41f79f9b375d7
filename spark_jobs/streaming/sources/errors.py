"""Errors of declared streams."""

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class InvalidStreamError(JobUsageError, StreamError):
    """Raised for a stream whose declaration is invalid."""
