"""What can go wrong with declared streams."""

from springline.spark_jobs.errors import Misuse
from springline.spark_jobs.streaming.errors import StreamError


class BadStream(Misuse, StreamError):
    """A stream whose declaration contradicts itself."""
