"""The metrics of persistence, and what of a change of state they count."""

from __future__ import annotations

from collections.abc import Callable

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.metric import Kind, Meter, Metric

RISK_BYTES = Metric("persistence.risk.bytes", Kind.GAUGE, "By", (), "Bytes that only the cache holds")
RISK_GONE_BYTES = Metric(
    "persistence.risk.irrecoverable_bytes", Kind.GAUGE, "By", (), "Those of them that nothing could make again"
)
RISK_UNPROVEN_BYTES = Metric(
    "persistence.risk.unproven_bytes", Kind.GAUGE, "By", (),
    "Those of them that only operations could make again that were never seen to repeat",
)  # fmt: skip
RISK_SECONDS = Metric(
    "persistence.risk.recompute_seconds",
    Kind.GAUGE,
    "s",
    (),
    "What making again all but the irrecoverable ones would take",
)
QUEUE_LENGTH = Metric("persistence.queue.length", Kind.GAUGE, "{dataset}", (), "Generations that want persisting")
QUEUE_BYTES = Metric("persistence.queue.bytes", Kind.GAUGE, "By", (), "Their bytes")
CACHE_BYTES = Metric("persistence.cache.bytes", Kind.GAUGE, "By", (), "Bytes in the cache, and expected by open writes")
CACHE_CAPACITY = Metric("persistence.cache.capacity", Kind.GAUGE, "By", (), "Bytes that the cache may hold")
LOST = Metric("persistence.lost", Kind.GAUGE, "{dataset}", (), "Generations that a fault took, and that are not back")
BROKEN_RATIO = Metric(
    "persistence.quality.broken_ratio", Kind.GAUGE, "1", ("operation",),
    "Share of the rows that break a rule, the worst of the generations in force that were judged within a day",
)  # fmt: skip
TRANSITIONS = Metric(
    "persistence.transitions", Kind.COUNTER, "{transition}", ("event",),
    "Changes of state of generations, by event: committed, copied, evicted, lost, restored, …",
)  # fmt: skip
TRANSFER_SECONDS = Metric(
    "persistence.transfer.seconds", Kind.TIMER, "s", ("method",), "What each transfer to the under-store took"
)
TRANSFER_BYTES = Metric(
    "persistence.transfer.bytes", Kind.COUNTER, "By", ("method",), "Bytes of generations that were persisted"
)
TRANSFER_FAILURES = Metric(
    "persistence.transfer.failures", Kind.COUNTER, "{transfer}", ("method",), "Transfers that ended without a copy"
)
RECOVERIES = Metric("persistence.recoveries", Kind.COUNTER, "{dataset}", (), "Generations brought back to the cache")
RECOVERED_BYTES = Metric("persistence.recovered_bytes", Kind.COUNTER, "By", (), "Their bytes")
VERDICTS = Metric(
    "persistence.quality.verdicts", Kind.COUNTER, "{verdict}", ("verdict",),
    "Judgements of the quality gate: kept (all rules), passed or quarantined (rules were broken), stopped",
)  # fmt: skip
BROKEN_ROWS = Metric("persistence.quality.broken_rows", Kind.COUNTER, "{row}", (), "Rows that break a rule")
ALERT = Metric(
    "alerts.standing", Kind.GAUGE, "{alert}", ("rule", "severity"), "For how many subjects the alert of a rule stands"
)

METRICS = (
    RISK_BYTES, RISK_GONE_BYTES, RISK_UNPROVEN_BYTES, RISK_SECONDS, QUEUE_LENGTH, QUEUE_BYTES, CACHE_BYTES,
    CACHE_CAPACITY, LOST, BROKEN_RATIO, TRANSITIONS, TRANSFER_SECONDS, TRANSFER_BYTES, TRANSFER_FAILURES, RECOVERIES,
    RECOVERED_BYTES, VERDICTS, BROKEN_ROWS, ALERT,
)  # fmt: skip


def counting(meter: Meter) -> Callable[[Event, Dataset], None]:
    """Tells `meter` of every change of state that the catalog makes; to be handed to `Catalog.hear`."""

    def count(event: Event, dataset: Dataset) -> None:
        meter.tell(TRANSITIONS, event=event.value)
        method = dataset.method.value if dataset.method else "data"
        if event is Event.COPIED:
            meter.tell(TRANSFER_SECONDS, dataset.actual_seconds or 0.0, method=method)
            meter.tell(TRANSFER_BYTES, dataset.bytes, method=method)
        elif event is Event.RELEASED:
            meter.tell(TRANSFER_FAILURES, method=method)
        elif event is Event.RESTORED:
            meter.tell(RECOVERIES)
            meter.tell(RECOVERED_BYTES, dataset.bytes)
        elif event in (Event.COMMITTED, Event.ABANDONED) and (verdict := _verdict(event, dataset)):
            meter.tell(VERDICTS, verdict=verdict)
            meter.tell(BROKEN_ROWS, _number(dataset.report, "broken_rows"))

    return count


def broken_ratio(dataset: Dataset) -> float | None:
    """The share of a generation's rows that break a rule; None where no quality gate judged it."""
    if not _judged(dataset):
        return None
    return _number(dataset.report, "broken_rows") / max(_number(dataset.report, "rows"), 1.0)


def _verdict(event: Event, dataset: Dataset) -> str:
    if not _judged(dataset) or dataset.report is None:
        return ""
    if event is Event.ABANDONED:
        return "stopped"
    if dataset.report["held"]:
        return "kept"
    return "quarantined" if dataset.report.get("mode") == "quarantine" else "passed"


def _judged(dataset: Dataset) -> bool:
    """Whether its report is one of the quality gate; results of streams have others."""
    return dataset.report is not None and "held" in dataset.report


def _number(report: object, name: str) -> float:
    return float(report.get(name, 0)) if isinstance(report, dict) else 0.0
