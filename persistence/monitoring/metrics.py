"""The metrics of persistence, and how changes of state update them."""

from __future__ import annotations

from collections.abc import Callable

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.metric import Metric, MetricKind, MetricsReporter

RISK_BYTES = Metric("persistence.risk.bytes", MetricKind.GAUGE, "By", (), "Bytes whose only copy is in the cache")
RISK_IRRECOVERABLE_BYTES = Metric(
    "persistence.risk.irrecoverable_bytes", MetricKind.GAUGE, "By", (), "Bytes at risk that would be irrecoverable"
)
RISK_UNPROVEN_BYTES = Metric(
    "persistence.risk.unproven_bytes", MetricKind.GAUGE, "By", (),
    "Bytes at risk that only unproven operations could recompute",
)  # fmt: skip
RISK_SECONDS = Metric(
    "persistence.risk.recompute_seconds",
    MetricKind.GAUGE,
    "s",
    (),
    "Time to recompute all recomputable bytes at risk",
)
QUEUE_LENGTH = Metric("persistence.queue.length", MetricKind.GAUGE, "{dataset}", (), "Queued generations")
QUEUE_BYTES = Metric("persistence.queue.bytes", MetricKind.GAUGE, "By", (), "Bytes of the queued generations")
CACHE_BYTES = Metric(
    "persistence.cache.bytes", MetricKind.GAUGE, "By", (), "Bytes in the cache, and reserved for open writes"
)
CACHE_CAPACITY = Metric("persistence.cache.capacity", MetricKind.GAUGE, "By", (), "Capacity of the cache")
TABLES_PENDING = Metric(
    "persistence.tables.pending", MetricKind.GAUGE, "{dataset}", ("table",), "Datasets that are not in their table yet"
)
LOST = Metric("persistence.lost", MetricKind.GAUGE, "{dataset}", (), "Lost generations that have not been restored")
BROKEN_RATIO = Metric(
    "persistence.quality.broken_ratio", MetricKind.GAUGE, "1", ("operation",),
    "Maximum share of rows that break a quality rule, over current generations checked within a day",
)  # fmt: skip
TRANSITIONS = Metric(
    "persistence.transitions", MetricKind.COUNTER, "{transition}", ("event",),
    "State transitions of generations, by event: committed, copied, evicted, lost, restored, …",
)  # fmt: skip
TRANSFER_SECONDS = Metric(
    "persistence.transfer.seconds", MetricKind.TIMER, "s", ("method",), "Duration of each transfer to the under-store"
)
TRANSFER_BYTES = Metric(
    "persistence.transfer.bytes", MetricKind.COUNTER, "By", ("method",), "Bytes of generations that were persisted"
)
TRANSFER_FAILURES = Metric(
    "persistence.transfer.failures",
    MetricKind.COUNTER,
    "{transfer}",
    ("method",),
    "Failed transfers",
)
RECOVERIES = Metric("persistence.recoveries", MetricKind.COUNTER, "{dataset}", (), "Generations restored to the cache")
RECOVERED_BYTES = Metric("persistence.recovered_bytes", MetricKind.COUNTER, "By", (), "Bytes restored to the cache")
VERDICTS = Metric(
    "persistence.quality.verdicts", MetricKind.COUNTER, "{verdict}", ("verdict",),
    "Verdicts of the quality gate: valid (no rule is broken), passed or quarantined (rules are broken), stopped",
)  # fmt: skip
BROKEN_ROWS = Metric("persistence.quality.broken_rows", MetricKind.COUNTER, "{row}", (), "Rows that break a rule")
ALERT = Metric(
    "alerts.firing",
    MetricKind.GAUGE,
    "{alert}",
    ("rule", "severity"),
    "Number of subjects for which the alert of a rule fires",
)

METRICS = (
    RISK_BYTES, RISK_IRRECOVERABLE_BYTES, RISK_UNPROVEN_BYTES, RISK_SECONDS, QUEUE_LENGTH, QUEUE_BYTES, CACHE_BYTES,
    CACHE_CAPACITY, TABLES_PENDING, LOST, BROKEN_RATIO, TRANSITIONS, TRANSFER_SECONDS, TRANSFER_BYTES,
    TRANSFER_FAILURES, RECOVERIES, RECOVERED_BYTES, VERDICTS, BROKEN_ROWS, ALERT,
)  # fmt: skip


def transition_listener(metrics_reporter: MetricsReporter) -> Callable[[Event, Dataset], None]:
    """Return a listener for `Catalog.subscribe` that reports every change of state to `metrics_reporter`."""

    def report_transition(event: Event, dataset: Dataset) -> None:
        metrics_reporter.report(TRANSITIONS, event=event.value)
        method = dataset.method.value if dataset.method else "data"
        if event is Event.COPIED:
            metrics_reporter.report(TRANSFER_SECONDS, dataset.actual_seconds or 0.0, method=method)
            metrics_reporter.report(TRANSFER_BYTES, dataset.bytes, method=method)
        elif event is Event.RELEASED:
            metrics_reporter.report(TRANSFER_FAILURES, method=method)
        elif event is Event.RESTORED:
            metrics_reporter.report(RECOVERIES)
            metrics_reporter.report(RECOVERED_BYTES, dataset.bytes)
        elif event in (Event.COMMITTED, Event.ABANDONED) and (verdict := _verdict(event, dataset)):
            metrics_reporter.report(VERDICTS, verdict=verdict)
            metrics_reporter.report(BROKEN_ROWS, _number(dataset.report, "broken_rows"))

    return report_transition


def broken_ratio(dataset: Dataset) -> float | None:
    """Return the share of a generation's rows that break a rule; None if no quality gate checked it."""
    if not _has_quality_report(dataset):
        return None
    return _number(dataset.report, "broken_rows") / max(_number(dataset.report, "rows"), 1.0)


def _verdict(event: Event, dataset: Dataset) -> str:
    if not _has_quality_report(dataset) or dataset.report is None:
        return ""
    if event is Event.ABANDONED:
        return "stopped"
    if dataset.report["valid"]:
        return "valid"
    return "quarantined" if dataset.report.get("mode") == "quarantine" else "passed"


def _has_quality_report(dataset: Dataset) -> bool:
    """Whether its report is one of the quality gate; results of streams have other reports."""
    return dataset.report is not None and "valid" in dataset.report


def _number(report: object, name: str) -> float:
    return float(report.get(name, 0)) if isinstance(report, dict) else 0.0
