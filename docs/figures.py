"""Writes the measured figures of the documents, from the stored results of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS
from docs.generated_parts import table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Columns:
    """Some columns, by their headings, of the rows that `where` accepts."""

    title: str
    columns: Mapping[str, str]
    where: Callable[[Row], bool] = lambda row: True


@dataclass(frozen=True)
class Across:
    """One value of the rows that `where` accepts, with a line for each `down` and a column for each `across`."""

    title: str
    down: str
    across: str
    value: str
    where: Callable[[Row], bool]


def _is_of(scenario: str, row: Row) -> bool:
    return bool(row["scenario"] == scenario)


_RUN = {
    "strategy": "strategy",
    "link, MB/s": "link_MB_s",
    "batches": "batches",
    "run, s": "run_s",
    "then until all is persisted, s": "drain_s",
    "sent, MB": "sent_MB",
    "sent synchronously, MB": "synchronous_MB",
    "cache at most, MB": "cache_peak_MB",
    "persister's CPU, s": "persister_cpu_s",
    "lost to eviction": "lost_to_eviction",
    "datasets": "of",
}
_FAULT = {
    "strategy": "strategy",
    "wiped at, s": "wiped_at_s",
    "lost": "lost",
    "lost for good": "lost_for_good",
    "recovery, s": "recovery_s",
    "run, s": "run_s",
}
_SIDE = {
    "side": "side",
    "run, s": "run_s",
    "then until all is persisted, s": "drain_s",
    "at risk, MB·s": "at_risk_MB_s",
    "of these for good": "for_good_MB_s",
    "at risk at most, MB": "most_at_risk_MB",
}
_KILLED = {
    "side": "side",
    "killed at, s": "killed_at_s",
    "away, s": "away_s",
    "finished": "of",
    "lost": "lost",
    "lost for good": "lost_for_good",
    "recovery, s": "recovery_s",
    "run, s": "run_s",
}
_PRESSURE = {
    "mode": "mode",
    "waiting p99, MB": "waiting_p99_mb",
    "at most": "waiting_max_mb",
    "latency p50, ms": "latency_p50_ms",
    "p99": "latency_p99_ms",
    "lost, %": "lost_percent",
    "sibling, %": "sibling_percent",
    "variation": "variation",
    "reversals a minute": "reversals_a_minute",
    "the capacity's own": "own_reversals_a_minute",
    "settled, s": "settle_s",
    "sent again, MB": "resent_mb",
}
_RELAY = {
    **{head: key for head, key in _PRESSURE.items() if key != "resent_mb"},
    "memory, MB": "memory_mb",
}
_SCENARIOS = {
    "level": "No overload: 25 MB/s of capacity for 20 MB/s",
    "step": "From 25 to 10 MB/s for 80 s and back",
    "oscillating": "Between 10 and 25 MB/s, every 20 s",
    "stop": "A stop of 10 s",
    "ramp": "Down to 10 MB/s within a minute, and back",
}
SHOWN: Mapping[str, Sequence[Columns | Across]] = {
    "persistence": (Columns("", {"what": "what", **_RUN}),),
    "object_store": (Columns("", {"what": "what", **_RUN}),),
    "links": (Columns("", _RUN),),
    "wipes": (
        Columns(
            "Without a fault",
            {key: _FAULT[key] for key in ("strategy", "run, s")},
            lambda row: not _is_wiped(row),
        ),
        Columns("With the cache wiped", _FAULT, lambda row: _is_wiped(row)),
    ),
    "wide_tables": (
        Columns(
            "",
            {"columns": "columns", "plain, s": "plain_seconds", "digest, s": "digest_seconds", "ratio": "ratio"},
        ),
    ),
    "stores": (Columns("", {"way": "way", "MB/s": "MB_s", "least": "least_MB_s", "most": "most_MB_s"}),),
    "services": (
        Columns(
            "",
            {
                "server": "service",
                "processes": "processes",
                "ready at the first start, s": "first_s",
                "ready later, s": "again_s",
                "memory, MB": "own_MB",
                "memory, what is shared counted in each, MB": "resident_MB",
            },
        ),
    ),
    "alluxio": (
        Columns("Without a fault", _SIDE, lambda row: row["what"] == "no fault"),
        Columns("With Alluxio's worker killed", _KILLED, lambda row: row["what"] == "worker killed"),
    ),
    "backpressure": tuple(Columns(title, _RELAY, partial(_is_of, name)) for name, title in _SCENARIOS.items()),
    "backpressure_simulation": tuple(
        Columns(title, _PRESSURE, partial(_is_of, name)) for name, title in _SCENARIOS.items()
    ),
    "policies": (
        Across(
            "Expected recovery in seconds after a loss of the cache, under `async_and_sync` at load 1",
            "lineage", "policy", "expected_recovery_s", lambda row: _at_load_one(row, "async_and_sync"),
        ),
        Across(
            "Its 95th percentile, in seconds",
            "lineage", "policy", "recovery_95_s", lambda row: _at_load_one(row, "async_and_sync"),
        ),
        Across(
            "Gigabytes at risk times seconds, summed over a run",
            "lineage", "policy", "at_risk_gb_s", lambda row: _at_load_one(row, "async_and_sync"),
        ),
        Across(
            "Megabytes expected to be lost permanently, under `async_store` at load 1",
            "lineage", "policy", "expected_gone_mb", lambda row: _at_load_one(row, "async_store"),
        ),
    ),
}  # fmt: skip


def figures(name: str, folder: Path = RESULTS) -> str:
    """Return the results of the benchmark `name` as Markdown: its goals, selected columns of its rows, its remarks."""
    path = folder / f"{name}.json"
    command = f"python -m benchmarks {name} --size full"
    if not path.exists():
        return f"*Not measured yet: `{command}` measures it, `make docs` puts the figures here.*"
    result = json.loads(path.read_text(encoding="utf-8"))
    machine = result["machine"]
    size = "" if result["size"] == "full" else f" (size {result['size']})"
    parts = [
        f"Measured on {result['when'][:10]}{size} on {machine['cores']} cores of {machine['processor']} with "
        f"{machine['memory_gb']} GB of memory, by `{command.replace('full', result['size'])}`.",
        _goals(result["goals"]) if result["goals"] else "",
        *(_render_part(part, result["rows"]) for part in SHOWN.get(name, (_all_columns(result["rows"]),))),
        "\n".join(f"- {remark}" for remark in result["remarks"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _goals(goals: Sequence[Row]) -> str:
    columns = ("goal", "measured", "target", "")
    rows = [(goal["goal"], _format_value(goal["measured"]), goal["target"], "met" if goal["met"] else "**missed**")
            for goal in goals]  # fmt: skip
    return table(columns, rows, numbers=frozenset({"measured"}))


def _render_part(part: Columns | Across, rows: Sequence[Row]) -> str:
    selected_rows = [row for row in rows if part.where(row)]
    if not selected_rows:
        return ""
    if isinstance(part, Columns):
        headings = tuple(part.columns)
        lines = [tuple(_format_value(row.get(key)) for key in part.columns.values()) for row in selected_rows]
        numbers = {head for head, key in part.columns.items() if all(_is_number(row.get(key)) for row in selected_rows)}
    else:
        across = list(dict.fromkeys(row[part.across] for row in selected_rows))
        values = {(row[part.down], row[part.across]): row[part.value] for row in selected_rows}
        headings = (part.down, *across)
        downs = dict.fromkeys(row[part.down] for row in selected_rows)
        lines = [(down, *(_format_value(values.get((down, column))) for column in across)) for down in downs]
        numbers = set(across)
    drawn = table(headings, lines, numbers=frozenset(numbers))
    return f"{part.title}:\n\n{drawn}" if part.title else drawn


def _all_columns(rows: Sequence[Row]) -> Columns:
    return Columns("", {key.replace("_", " "): key for row in rows for key in row})


def _is_wiped(row: Row) -> bool:
    return row.get("wiped_at_s") is not None


def _at_load_one(row: Row, strategy: str) -> bool:
    return (row["strategy"], row["sends"], row["load"]) == (strategy, "data", 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or value is None


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
