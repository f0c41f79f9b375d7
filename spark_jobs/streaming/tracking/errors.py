"""Errors of tuple tracking: each names the root, the range or the acker, and what is allowed."""

from __future__ import annotations

from springline.spark_jobs.streaming.errors import StreamError


class TrackingError(StreamError):
    """Base class of the errors of this package."""


class InvalidRootError(TrackingError):
    """A partition, offset or row exceeds the capacity of a root's id."""


class InvalidRingError(TrackingError):
    """A change of the ring that is not possible."""


class InvalidUpdateError(TrackingError):
    """An inconsistent registration or ack: an impossible attempt, tick or number of values."""


class UnknownFailureError(TrackingError):
    """No failed record is at this position in the dead-letter queue."""


class RetryRefusedError(TrackingError):
    """A failed record cannot be sent again, or was already."""


class InvariantError(TrackingError):
    """A table has found itself inconsistent: a defect of this package."""
