"""Metrics, samples of gauges, and the interface that reports both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "springline."  # of the metric names as collectors see them


class MetricKind(StrEnum):
    """A counter adds up the reported values, a gauge has the last one, a timer records durations."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class Metric:
    """A metric as its layer declares it; `unit` in the notation of UCUM, `tags` the names of its dimensions."""

    name: str
    kind: MetricKind
    unit: str
    tags: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class MetricSample:
    """The value of a gauge at one time."""

    metric: Metric
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


class MetricsReporter(ABC):
    """Reports values to a collector; never blocks the caller, and never raises errors of the collector.

    `is_enabled`: whether values are collected at all; if not, gauges need not be read.
    """

    is_enabled = True

    def report(self, metric: Metric, value: float = 1, **tags: str) -> None:
        """Report one value; raises `ValueError` if `tags` are not those of the metric."""
        if tuple(sorted(tags)) != tuple(sorted(metric.tags)):
            raise ValueError(
                f"{metric.name} was reported with the tags {sorted(tags)}, but has the tags {sorted(metric.tags)}"
            )
        self.record(metric, value, tags)

    def report_all(self, samples: Iterable[MetricSample]) -> None:
        """Report all samples."""
        for sample in samples:
            self.report(sample.metric, sample.value, **sample.tags)

    @abstractmethod
    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        """Record a value whose tags have been checked."""

    @abstractmethod
    def close(self) -> None:
        """Send what was reported so far, within a few seconds."""


class NoMetricsReporter(MetricsReporter):
    """Discards all values."""

    is_enabled = False

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        pass

    def close(self) -> None:
        pass


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Return metrics by their names."""
    return {metric.name: metric for metric in metrics}
