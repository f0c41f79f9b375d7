"""What can go wrong with routing: each error says what was asked, and what to do next."""

from __future__ import annotations

from springline.spark_jobs.streaming.errors import StreamError


class BadRouting(StreamError):
    """A routing table, a strategy or a number of units that cannot be."""
