"""What can go wrong with declared streams."""

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class InvalidStreamError(JobUsageError, StreamError):
    """A stream whose declaration contradicts itself."""
