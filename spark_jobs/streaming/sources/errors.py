"""Errors of declared streams."""

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class InvalidStreamError(JobUsageError, StreamError):
    """Raised for a stream whose declaration is invalid."""


class InvalidFormatError(JobUsageError, StreamError):
    """Raised for a format that no package provides, or whose options or fields are invalid."""
