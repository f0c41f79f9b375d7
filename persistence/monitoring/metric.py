"""What a metric is, what a reading of one is, and the one door through which both go out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "springline."  # of the names that collectors see


class Kind(StrEnum):
    """A counter grows by what is told, a gauge becomes what is told, a timer is told how long each one took."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class Metric:
    """A metric as its layer declares it; `unit` in the form of UCUM, `tags` the names of what it is told apart by."""

    name: str
    kind: Kind
    unit: str
    tags: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Reading:
    """The value of a gauge at a moment."""

    metric: Metric
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


class Meter(ABC):
    """Takes what is told, and brings it to a collector; never holds up who tells, never raises for the collector.

    `listens`: whether anybody takes what is told; if not, gauges need not be read.
    """

    listens = True

    def tell(self, metric: Metric, value: float = 1, **tags: str) -> None:
        """Tell one value; raises `ValueError` if `tags` are not those of the metric."""
        if tuple(sorted(tags)) != tuple(sorted(metric.tags)):
            raise ValueError(f"{metric.name} is told with {sorted(tags)}, and has the tags {sorted(metric.tags)}")
        self.record(metric, value, tags)

    def read_out(self, readings: Iterable[Reading]) -> None:
        """Tell all of them."""
        for reading in readings:
            self.tell(reading.metric, reading.value, **reading.tags)

    @abstractmethod
    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        """Take a value whose tags are those of the metric."""

    @abstractmethod
    def close(self) -> None:
        """Bring out what was told so far, within moments."""


class NoMeter(Meter):
    """Takes everything, tells nobody."""

    listens = False

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        pass

    def close(self) -> None:
        pass


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Metrics by their names."""
    return {metric.name: metric for metric in metrics}
