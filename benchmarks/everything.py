"""Every benchmark at its quick size, one after another in processes of their own, and whether their goals were met."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from springline.persistence.text.formatting import format_seconds


def run_all(names: Iterable[str], folder: Path, console: Console) -> bool:
    """Run them, keep the results in `folder`, print what was missed; whether every one ended."""
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for heading in ("benchmark", "took", "goals met", "missed"):
        table.add_column(heading, overflow="fold")
    ended = True
    for name in names:
        console.print(f"{name} …", highlight=False)
        started_at = time.monotonic()
        (folder / f"{name}.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks", name, "--size", "quick", "--into", str(folder)]
        with (folder / f"{name}.log").open("wb") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)
        met, missed = goals_of(folder / f"{name}.json")
        ended = ended and missed is not None
        outcome = f"did not come to its end: see {log.name}" if missed is None else "\n".join(missed)
        table.add_row(name, format_seconds(time.monotonic() - started_at), str(met), outcome)
    console.print(table)
    return ended


def goals_of(result: Path) -> tuple[int, list[str] | None]:
    """How many goals were met, and those that were missed, in words; None where there is no result."""
    try:
        goals = json.loads(result.read_text(encoding="utf-8"))["goals"]
    except FileNotFoundError:
        return 0, None
    missed = [f"{goal['goal']}: {goal['measured']} ({goal['target']})" for goal in goals if not goal["met"]]
    return len(goals) - len(missed), missed
