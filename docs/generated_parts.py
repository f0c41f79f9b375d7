"""Fills the generated parts of a document, which are between markers: `<!-- figures: NAME -->` … `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap

_WIDTH = 120  # characters per line
_PART = re.compile(r"(?P<begin><!-- (?P<kind>\w+): (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def fill_parts(text: str, kind: str, write: Callable[[str], str]) -> str:
    """Return `text` with every part of `kind` replaced by the output of `write`, which gets the part's name."""

    def replace(part: re.Match[str]) -> str:
        if part["kind"] != kind:
            return part[0]
        return f"{part['begin']}\n{write(part['name']).strip()}\n\n{part['end']}"

    return _PART.sub(replace, text)


def wrap_prose(text: str) -> str:
    """Wrap prose to the line width of a document."""
    return "\n".join(wrap(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False))


def non_empty_columns(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Return the columns that are not empty in all rows, and the rows with only these."""
    indices = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in indices), [tuple(row[place] for place in indices) for row in rows]


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers: frozenset[str] = frozenset()) -> str:
    """Return a Markdown table; the columns in `numbers` are right-aligned."""
    rules = ("--:" if column in numbers else "---" for column in columns)
    lines = [columns, tuple(rules), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
