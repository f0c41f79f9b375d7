"""Tables as commands print them."""

from __future__ import annotations

from rich import box
from rich.table import Table


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines."""
    return Table(*columns, box=box.SIMPLE, padding=(0, 1), pad_edge=False)
