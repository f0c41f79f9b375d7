"""Reads the gauges of persistence from the catalog."""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import select

from springline.persistence.catalog import schema
from springline.persistence.catalog.risk_samples import shares_of
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.errors import CatalogUnavailableError
from springline.persistence.monitoring.metric import Reading
from springline.persistence.monitoring.metrics import (
    BROKEN_RATIO,
    CACHE_BYTES,
    CACHE_CAPACITY,
    LOST,
    QUEUE_BYTES,
    QUEUE_LENGTH,
    RISK_BYTES,
    RISK_GONE_BYTES,
    RISK_SECONDS,
    RISK_UNPROVEN_BYTES,
    broken_ratio,
)
from springline.persistence.platform import Platform

_SECONDS = 10.0
_JUDGED_WITHIN = 86400.0  # seconds
_MOST_JUDGED = 100


class Gauges:
    """Reads the gauges out to the platform's meter, every ten seconds at most, if anybody listens."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._told_at = float("-inf")

    def tell(self) -> None:
        """Do it, if it is time; a catalog that is away has no gauges now."""
        if not self._platform.meter.listens or time.monotonic() - self._told_at < _SECONDS:
            return
        self._told_at = time.monotonic()
        with suppress(CatalogUnavailableError):
            self._platform.meter.read_out(readings(self._platform))


def readings(platform: Platform) -> list[Reading]:
    """All gauges now; raises `CatalogUnavailableError`."""
    catalog = platform.catalog
    loss = catalog.loss_of_cache(away=bool(platform.watch.why_away()))
    shares = shares_of(loss, catalog.costs_of(loss.unmeasured)).values()
    length, size = platform.claims.queue()
    return [
        Reading(RISK_BYTES, sum(share.bytes for share in shares)),
        Reading(RISK_GONE_BYTES, sum(share.irrecoverable_bytes for share in shares)),
        Reading(RISK_UNPROVEN_BYTES, sum(share.unproven_bytes for share in shares)),
        Reading(RISK_SECONDS, sum(share.recompute_seconds for share in shares)),
        Reading(QUEUE_LENGTH, length),
        Reading(QUEUE_BYTES, size),
        Reading(CACHE_BYTES, catalog.cache_used()),
        Reading(CACHE_CAPACITY, platform.settings.cache_capacity),
        Reading(LOST, len(platform.maintenance.lost())),
        *_judged(platform),
    ]


def _judged(platform: Platform) -> list[Reading]:
    query = (
        select(generation.c.id)
        .where(
            schema.committed,
            ~generation.c.superseded,
            generation.c.report.is_not(None),
            generation.c.committed_at > db_now() - _JUDGED_WITHIN,
        )
        .order_by(generation.c.id.desc())
        .limit(_MOST_JUDGED)
    )
    worst: dict[str, float] = {}
    for dataset in platform.catalog.select(query):
        ratio, maker = broken_ratio(dataset), dataset.call.name if dataset.call else ""
        if ratio is not None:
            worst[maker] = max(ratio, worst.get(maker, 0.0))
    return [Reading(BROKEN_RATIO, ratio, {"operation": maker}) for maker, ratio in sorted(worst.items())]
