"""Tables of rows for the output of commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from rich.text import Text

from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json
from springline.persistence.text.visible_text import escape_unprintable


def print_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows below the names of their columns; a missing value is an empty field."""
    table = plain_table()
    for name in columns:
        table.add_column(literal_text(name))
    for row in rows:
        table.add_row(*(literal_text("" if value is None else str(value)) for value in row))
    console().print(table)


def literal_text(text: str, style: str = "") -> Text:
    """Return external text for a table: without markup, and with control characters escaped."""
    return Text(escape_unprintable(text), style=style)


def print_answer(answer: pa.Table, as_json: bool) -> None:
    """Print an Arrow table for a person, or as JSON."""
    rows = answer.to_pylist()
    if as_json:
        print_json(rows)
    else:
        print_rows(answer.column_names, (row.values() for row in rows))
