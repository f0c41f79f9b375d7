"""What can go wrong with tuple tracking: each error names the root, the range or the acker, and what is allowed."""

from __future__ import annotations

from springline.spark_jobs.streaming.errors import StreamError


class TrackingError(StreamError):
    """The root of this folder's errors."""


class InvalidRootError(TrackingError):
    """A partition, offset or row that a root's id has no room for."""


class InvalidRingError(TrackingError):
    """A change of the ring that cannot be made."""


class InvalidUpdateError(TrackingError):
    """A registration or an ack that contradicts itself: an attempt, a slice or a number of values that cannot be."""


class UnknownFailureError(TrackingError):
    """No record that failed is at this place among the dead letters."""


class RetryRefusedError(TrackingError):
    """A record that failed and cannot be sent again, or was already."""


class InvariantError(TrackingError):
    """A table found that it contradicts itself: a defect of this package."""
