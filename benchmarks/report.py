"""What a benchmark found: rows and goals, kept as `results/NAME.json` and printed as a table, the goals last."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """Something the project promised: what was measured, its target, and whether that is met."""

    goal: str
    measured: Any
    target: str
    met: bool

    def line(self) -> str:
        """One line for a person."""
        return f"goal {'met' if self.met else 'MISSED'}: {self.goal}: {self.measured} (target {self.target})"


@dataclass(frozen=True)
class Report:
    """The result of one benchmark: rows as measured, goals, and remarks that a reader of the figures needs.

    `table` is what is printed; empty: the rows.
    """

    name: str
    size: str
    rows: Sequence[Row]
    goals: Sequence[Goal]
    remarks: Sequence[str] = ()
    table: Sequence[Row] = ()

    def as_dict(self, *, when: datetime, machine: Mapping[str, Any]) -> dict[str, Any]:
        """The form of the results files."""
        return {
            "name": self.name,
            "when": when.isoformat(timespec="seconds"),
            "machine": dict(machine),
            "size": self.size,
            "rows": [dict(row) for row in self.rows],
            "goals": [asdict(goal) for goal in self.goals],
            "remarks": list(self.remarks),
        }


def this_machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "python": platform.python_version(),
    }


def keep(report: Report, folder: Path = RESULTS) -> Path:
    """Write the report to `folder/NAME.json`; returns that path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{report.name}.json"
    result = report.as_dict(when=datetime.now(UTC), machine=this_machine())
    target.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return target


def show(report: Report, console: Console) -> None:
    """Print the rows as a table, then the remarks, then a line a goal."""
    rows = report.table or report.rows
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=f"{report.name} ({report.size})")
    for column in columns:
        number = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console.print(table)
    for remark in report.remarks:
        console.print(remark, markup=False, highlight=False)
    for goal in report.goals:
        console.print(goal.line(), markup=False, highlight=False, style="green" if goal.met else "red")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
