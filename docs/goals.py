"""Writes which goals the benchmarks meet, from their stored results."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report import RESULTS
from docs.generated_parts import table

_DOCS = Path(__file__).resolve().parent
_MARKER = "<!-- figures: {} -->"  # above a benchmark's table


def goals_table(_: str, folder: Path = RESULTS) -> str:
    """Return a line for each benchmark with a stored result: how many of its goals are met, and which are missed."""
    rows = []
    pages = {page.stem: page.read_text(encoding="utf-8") for page in sorted(_DOCS.glob("*.md"))}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        goals = result["goals"]
        missed = [f"{goal['goal']}: {goal['measured']} ({goal['target']})" for goal in goals if not goal["met"]]
        page = next(name for name, text in pages.items() if _MARKER.format(path.stem) in text)
        met = f"{len(goals) - len(missed)} of {len(goals)}" if goals else "none set"
        rows.append((f"[{path.stem}]({page}.md)", result["when"][:10], met, "; ".join(missed)))
    return table(("benchmark", "measured on", "met", "missed"), rows)
