"""What a benchmark found: rows and goals, kept as `results/NAME.json` and printed as a table, the goals last."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
_EDGES = 3  # characters beside a cell

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
    title = f"{report.name} ({report.size})"
    fits = sum(_least_width(rows, column) + _EDGES for column in columns) < console.width
    for table in [_table(title, rows, columns)] if fits else _transposed_tables(title, rows, columns, console.width):
        console.print(table)
    for remark in report.remarks:
        console.print(remark, markup=False, highlight=False)
    for goal in report.goals:
        console.print(goal.line(), markup=False, highlight=False, style="green" if goal.met else "red")


def _table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Return a table with a line a row."""
    table = Table(title=title)
    for column in columns:
        number = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _least_width(rows: Sequence[Row], column: str) -> int:
    """Return the least width of a column in which its cells and the words of its heading are not broken."""
    heading_words = column.replace("_", " ").split()
    return max(len(text) for text in (*heading_words, *(_cell(row.get(column)) for row in rows)))


def _transposed_tables(title: str, rows: Sequence[Row], columns: Sequence[str], width: int) -> Iterator[Table]:
    """Yield tables with a line a column of the rows, each with as many rows as fit into the width."""
    names = max(len(column) for column in columns) + _EDGES
    remaining = list(rows)
    while remaining:
        table, left = Table(title=title, show_header=False), width - names
        table.add_column(no_wrap=True)
        table_columns: list[Row] = []
        for row in remaining:
            size = max(len(_cell(row.get(column))) for column in columns) + _EDGES
            if table_columns and size > left:
                break
            table_columns.append(row)
            table.add_column(justify="right")
            left -= size
        for column in columns:
            table.add_row(column.replace("_", " "), *(_cell(row.get(column)) for row in table_columns))
        yield table
        del remaining[: len(table_columns)]


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
