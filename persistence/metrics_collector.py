"""Reads the gauges of persistence from the catalog."""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import select

from springline.persistence.catalog import schema
from springline.persistence.catalog.risk_samples import risk_by_dag
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.errors import CatalogUnavailableError
from springline.persistence.monitoring.metric import MetricSample
from springline.persistence.monitoring.metrics import (
    BROKEN_RATIO,
    CACHE_BYTES,
    CACHE_CAPACITY,
    LOST,
    QUEUE_BYTES,
    QUEUE_LENGTH,
    RISK_BYTES,
    RISK_IRRECOVERABLE_BYTES,
    RISK_SECONDS,
    RISK_UNPROVEN_BYTES,
    TABLES_PENDING,
    broken_ratio,
)
from springline.persistence.platform import Platform

_COLLECT_INTERVAL = 10.0
_QUALITY_WINDOW = 86400.0  # seconds
_MAX_QUALITY_REPORTS = 100


class GaugeCollector:
    """Reports the gauges to the platform's metrics reporter, at most every ten seconds, if it is enabled."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._collected_at = float("-inf")

    def collect(self) -> None:
        """Report the gauges if it is time; an unavailable catalog reports none."""
        if not self._platform.metrics_reporter.is_enabled or time.monotonic() - self._collected_at < _COLLECT_INTERVAL:
            return
        self._collected_at = time.monotonic()
        with suppress(CatalogUnavailableError):
            self._platform.metrics_reporter.report_all(read_gauges(self._platform))


def read_gauges(platform: Platform) -> list[MetricSample]:
    """Read all gauges; raises `CatalogUnavailableError`."""
    catalog = platform.catalog
    loss = catalog.cache_loss(ignore_under_store=bool(platform.watch.unavailable_reason()))
    shares = risk_by_dag(loss, catalog.load_cost_model_of(loss.unmeasured_operations)).values()
    length, size = platform.claims.queue_size()
    return [
        MetricSample(RISK_BYTES, sum(share.bytes for share in shares)),
        MetricSample(RISK_IRRECOVERABLE_BYTES, sum(share.irrecoverable_bytes for share in shares)),
        MetricSample(RISK_UNPROVEN_BYTES, sum(share.unproven_bytes for share in shares)),
        MetricSample(RISK_SECONDS, sum(share.recompute_seconds for share in shares)),
        MetricSample(QUEUE_LENGTH, length),
        MetricSample(QUEUE_BYTES, size),
        MetricSample(CACHE_BYTES, catalog.cache_used()),
        MetricSample(CACHE_CAPACITY, platform.replacement.capacity),
        MetricSample(LOST, len(platform.maintenance.find_lost())),
        *(
            MetricSample(TABLES_PENDING, platform.table_writer.status(target).pending, {"table": target.uri})
            for target in platform.table_writer.targets
        ),
        *_quality_samples(platform),
    ]


def _quality_samples(platform: Platform) -> list[MetricSample]:
    query = (
        select(generation.c.id)
        .where(
            schema.is_committed,
            ~generation.c.superseded,
            generation.c.report.is_not(None),
            generation.c.committed_at > db_now() - _QUALITY_WINDOW,
        )
        .order_by(generation.c.id.desc())
        .limit(_MAX_QUALITY_REPORTS)
    )
    worst: dict[str, float] = {}
    for dataset in platform.catalog.select(query):
        ratio, operation = broken_ratio(dataset), dataset.call.name if dataset.call else ""
        if ratio is not None:
            worst[operation] = max(ratio, worst.get(operation, 0.0))
    return [MetricSample(BROKEN_RATIO, ratio, {"operation": maker}) for maker, ratio in sorted(worst.items())]
