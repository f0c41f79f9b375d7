"""The layers with metrics for alert rules; layers above this package are known by name only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from springline.persistence.monitoring.metric import Metric, by_name

LAYERS: Mapping[str, str] = MappingProxyType(
    {
        "persistence": "springline.persistence.monitoring.metrics",
        "streams": "springline.spark_jobs.streaming.application.metrics",
    }
)  # by the first word of the metrics' names, the module that declares them as METRICS


def declared_metrics(layers: Mapping[str, str] = LAYERS) -> dict[str, Metric]:
    """Return the metrics of all installed layers by name; if this package is used alone, its own."""
    declared: dict[str, Metric] = {}
    for module in layers.values():
        try:
            declared |= by_name(import_module(module).METRICS)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
    return declared
