"""Writes which goals the benchmarks meet, from the results that they keep."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report import RESULTS
from docs.marked import table

_SHOWN_IN = {  # the document with the table
    "backpressure": "backpressure", "backpressure_simulation": "backpressure", "backpressure_stop": "backpressure",
    "join": "joins", "join_moves": "joins",
    "join_routing": "joins", "join_unit": "joins", "services": "services", "soak": "operations", "stores": "stores",
    "tracking": "tracking", "tracking_latency": "tracking", "acker": "tracking", "dataset_calls": "pages",
    "csv_decoders": "streams",
    "window_kernels": "streams", "window_latency": "streams", "window_scale": "streams", "windows": "streams",
}  # fmt: skip
_ELSE = "persistence"


def goals_table(_: str, folder: Path = RESULTS) -> str:
    """A line for each benchmark whose result is kept: how many goals it has, how many are met, and what is missed."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        goals = result["goals"]
        missed = [f"{goal['goal']}: {goal['measured']} ({goal['wanted']})" for goal in goals if not goal["met"]]
        page = _SHOWN_IN.get(path.stem, _ELSE)
        met = f"{len(goals) - len(missed)} of {len(goals)}" if goals else "none set"
        rows.append((f"[{path.stem}]({page}.md)", result["when"][:10], met, "; ".join(missed)))
    return table(("benchmark", "measured on", "met", "missed"), rows)
