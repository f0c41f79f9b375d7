"""Writes the reference of the metrics, from the tables that declare them."""

from __future__ import annotations

from docs.generated_parts import table
from springline.persistence.monitoring.metrics import METRICS as PERSISTENCE
from springline.spark_jobs.streaming.application.metrics import METRICS as STREAMS

_LAYERS = {"persistence": PERSISTENCE, "streams": STREAMS}


def metrics_table(layer: str) -> str:
    """Return the metrics of a layer as a table."""
    rows = [
        (f"`{each.name}`", each.kind.value, each.unit, ", ".join(each.tags), each.description)
        for each in _LAYERS[layer]
    ]
    return table(("metric", "kind", "unit", "tags", "what it is"), rows)
