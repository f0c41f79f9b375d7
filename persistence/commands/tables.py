"""The command that lists the tables of Delta Lake and Iceberg that datasets go into."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from springline.persistence.commands.arguments import Json, platform_session
from springline.persistence.text.terminal import console, print_json


def list_tables(as_json: Json = False) -> None:
    """List the tables that persisted datasets go into, how many are in them, and how many are still to go there."""
    with platform_session() as platform:
        writer = platform.table_writer
        rows = [(target, writer.status(target)) for target in writer.targets]
    if as_json:
        print_json(
            [
                {"datasets": target.template, "table": target.uri, "written": status.written, "pending": status.pending,
                 "error": status.error}
                for target, status in rows
            ]
        )  # fmt: skip
        return
    out = console()
    if not rows:
        out.print("No datasets go into tables: set SPRINGLINE_TABLES.")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("datasets", "table", "in it", "pending", "problem"):
        table.add_column(column, justify="right" if column in ("in it", "pending") else "left", overflow="fold")
    for target, status in rows:
        table.add_row(
            escape(target.template), escape(target.uri), f"{status.written:,}", f"{status.pending:,}",
            f"[red]{escape(status.error)}[/red]" if status.error else "",
        )  # fmt: skip
    out.print(table)
