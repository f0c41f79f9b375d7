"""Tables of rows as commands print them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from rich.text import Text

from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json
from springline.persistence.text.visible_text import visible


def print_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows below the names of their columns; an absent value is an empty field."""
    table = plain_table()
    for name in columns:
        table.add_column(as_it_stands(name))
    for row in rows:
        table.add_row(*(as_it_stands("" if value is None else str(value)) for value in row))
    console().print(table)


def as_it_stands(text: str, style: str = "") -> Text:
    """A text that came from outside: nothing in it is markup, and what would steer a terminal is spelled out."""
    return Text(visible(text), style=style)


def print_answer(found: pa.Table, as_json: bool) -> None:
    """Print an Arrow table for a person, or as JSON."""
    rows = found.to_pylist()
    if as_json:
        print_json(rows)
    else:
        print_rows(found.column_names, (row.values() for row in rows))
