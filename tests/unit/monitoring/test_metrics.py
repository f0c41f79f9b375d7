"""Metrics of persistence: what is counted when something happens, what gauges read, and that collectors get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from springline.persistence.engine.attempt import Attempt
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.metrics_collector import GaugeCollector, read_gauges
from springline.persistence.model.dataset import Call, OperationResult, Strategy
from springline.persistence.monitoring import metrics
from springline.persistence.monitoring.metric import Metric, MetricKind, MetricsReporter, NoMetricsReporter
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.application.metrics import METRICS as STREAMS
from springline.testing.lines import make_dataset as make
from springline.testing.lines import write_lines
from tests.support.datasets.stages import raise_
from tests.support.metered import RecordingReporter, collector


@pytest.fixture
def meter(platform: Platform) -> RecordingReporter:
    """Hears of every change on the platform."""
    reporter = RecordingReporter()
    platform.catalog.subscribe(metrics.transition_listener(reporter))
    platform.metrics_reporter = reporter
    return reporter


def commit_with_report(platform: Platform, path: str, *, broken: int, rows: int = 100) -> None:
    """A dataset that a quality gate has judged."""
    report = {"mode": "quarantine", "valid": not broken, "rows": rows, "broken_rows": broken}
    call = Call("gate", "1")
    with platform.store.write(path, call=call, strategy=Strategy.ASYNC_STORE) as writing:
        write_lines(writing.uri, ["line"])
        writing.mark_complete(OperationResult(rows=rows, digest="d", seconds=0.1, report=report))


def test_a_transfer_reports_its_seconds_and_bytes(platform: Platform, meter: RecordingReporter) -> None:
    """Once, by the method that it went by."""
    dataset = make(platform, "a", "load")
    platform.persister.drain()
    assert meter.of(metrics.TRANSFER_BYTES) == [(dataset.bytes, {"method": "data"})]
    ((seconds, tags),) = meter.of(metrics.TRANSFER_SECONDS)
    assert seconds == platform.catalog.get(dataset.ref).actual_seconds and tags == {"method": "data"}
    assert [tags["event"] for _, tags in meter.of(metrics.TRANSITIONS)] == ["cached", "committed", "copied"]


def test_a_transfer_that_fails_is_counted(
    platform: Platform, meter: RecordingReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of it is among those that went well."""
    make(platform, "a", "load")
    monkeypatch.setattr(Attempt, "send_data", raise_(StorageUnavailableError("away")))
    platform.persister.step()
    assert meter.of(metrics.TRANSFER_FAILURES) == [(1, {"method": "data"})]
    assert not meter.of(metrics.TRANSFER_SECONDS)


def test_evictions_recoveries_and_retirements_are_counted(platform: Platform, meter: RecordingReporter) -> None:
    """Once each, also those that are part of a larger transaction."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    for victim in platform.replacement.plan(1).victims:
        platform.replacement.evict(victim)
    platform.restorer.ensure_cached([dataset.ref])
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    platform.maintenance.retire()
    events = [tags["event"] for _, tags in meter.of(metrics.TRANSITIONS)]
    assert events.count("evicted") == 1 and events.count("retired") == 1
    assert meter.of(metrics.RECOVERIES) == [(1, {})]


def test_a_verdict_of_the_quality_gate_is_counted_with_the_broken_rows(
    platform: Platform, meter: RecordingReporter
) -> None:
    """Kept where every rule was, quarantined where rows were set aside."""
    commit_with_report(platform, "a", broken=0)
    commit_with_report(platform, "b", broken=7)
    assert [tags["verdict"] for _, tags in meter.of(metrics.VERDICTS)] == ["valid", "quarantined"]
    assert [value for value, _ in meter.of(metrics.BROKEN_ROWS)] == [0, 7]


def test_gauges_report_what_is_at_risk_and_what_waits(platform: Platform) -> None:
    """What is persisted is neither."""
    persisted_dataset = make(platform, "kept", "load", strategy=Strategy.CACHE_THROUGH)
    loose = make(platform, "loose", "load")
    readings = {reading.metric: reading.value for reading in read_gauges(platform)}
    values = [readings[each] for each in (metrics.RISK_BYTES, metrics.RISK_IRRECOVERABLE_BYTES, metrics.QUEUE_BYTES)]
    assert persisted_dataset.bytes and values == [loose.bytes] * 3
    assert readings[metrics.QUEUE_LENGTH] == 1


def test_the_share_of_broken_rows_is_that_of_the_worst_in_force(platform: Platform) -> None:
    """A generation that was superseded is not checked any more."""
    commit_with_report(platform, "a", broken=90)
    commit_with_report(platform, "a", broken=10)
    commit_with_report(platform, "b", broken=20)
    values = [(r.value, r.tags) for r in read_gauges(platform) if r.metric == metrics.BROKEN_RATIO]
    assert values == [(0.2, {"operation": "gate"})]


def test_gauges_are_read_for_a_collector_with_a_pause_between(
    platform: Platform, meter: RecordingReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost queries, and whoever works may ask for it as often as it likes."""
    gauges = GaugeCollector(platform)
    gauges.collect()
    gauges.collect()
    assert len(meter.of(metrics.QUEUE_LENGTH)) == 1
    monkeypatch.setattr(platform.catalog, "cache_loss", lambda: pytest.fail("it was read"))
    platform.metrics_reporter = NoMetricsReporter()
    GaugeCollector(platform).collect()


def test_a_collector_gets_what_was_reported(open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch) -> None:
    """By OTLP, with name, unit and tags, at the end of the process at the latest."""
    with collector() as (address, requests):
        monkeypatch.setenv("SPRINGLINE_OTLP_ENDPOINT", address)
        platform = open_at()
        make(platform, "a", "load")
        platform.persister.drain()
        platform.close()
    ((path, body),) = requests
    exported_metrics = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics[0].metrics
    exported = {metric.name: metric for metric in exported_metrics}
    assert path == "/v1/metrics"
    assert exported["springline.persistence.transfer.bytes"].unit == "By"
    (point,) = exported["springline.persistence.transfer.seconds"].exponential_histogram.data_points
    assert point.count == 1 and point.attributes[0].value.string_value == "data"


def test_a_collector_that_is_away_stops_no_work(open_at: Callable[..., Platform], monkeypatch: Any) -> None:
    """Nothing listens at that port."""
    monkeypatch.setenv("SPRINGLINE_OTLP_ENDPOINT", "http://127.0.0.1:9")
    platform = open_at()
    dataset = make(platform, "a", "load")
    platform.persister.drain()
    platform.close()
    assert platform.catalog.get(dataset.ref).persisted


def test_an_error_of_who_hears_of_a_change_stops_no_work(platform: Platform, caplog: pytest.LogCaptureFixture) -> None:
    """The change is made; the error is logged."""

    def break_(event: object, dataset: object) -> None:
        raise RuntimeError("the meter is broken")

    platform.catalog.subscribe(break_)
    committed = make(platform, "a", "load")
    platform.persister.drain()
    assert platform.catalog.get(committed.ref).persisted
    assert "a@1: a listener failed on the event committed" in caplog.text


def test_tags_that_a_metric_has_not_are_refused(meter: MetricsReporter) -> None:
    """So that the reference lists what is reported."""
    with pytest.raises(ValueError, match=r"transfer\.bytes was reported with the tags \[\], but .*\['method'\]"):
        meter.report(metrics.TRANSFER_BYTES, 1)


@pytest.mark.parametrize("metric", [*metrics.METRICS, *STREAMS], ids=lambda metric: metric.name)
def test_every_metric_is_declared_as_the_reference_wants_it(metric: Metric) -> None:
    """One name each, gauges and counters and timers, timers in seconds."""
    assert [each.name for each in (*metrics.METRICS, *STREAMS)].count(metric.name) == 1
    assert metric.kind is not MetricKind.TIMER or metric.unit == "s"
    assert metric.description and metric.unit
