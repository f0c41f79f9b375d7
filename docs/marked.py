"""Parts of a document that are generated stand between markers: `<!-- figures: NAME -->` … `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap

_WIDTH = 120  # characters of a line
_PART = re.compile(r"(?P<begin><!-- (?P<kind>\w+): (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def filled(text: str, kind: str, write: Callable[[str], str]) -> str:
    """`text` with every part of `kind` written anew by `write`, which is given the part's name."""

    def replace(part: re.Match[str]) -> str:
        if part["kind"] != kind:
            return part[0]
        return f"{part['begin']}\n{write(part['name']).strip()}\n\n{part['end']}"

    return _PART.sub(replace, text)


def folded(text: str) -> str:
    """Prose as lines of a document."""
    return "\n".join(wrap(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False))


def told_columns(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """The columns that say something in at least one row, and the rows cut to them."""
    told = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in told), [tuple(row[place] for place in told) for row in rows]


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers: frozenset[str] = frozenset()) -> str:
    """A Markdown table; the columns in `numbers` are set to the right."""
    rules = ("--:" if column in numbers else "---" for column in columns)
    lines = [columns, tuple(rules), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
