"""Dead letters of groups: late partials, and groups for which a query fails; a line is a group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from springline.persistence.text.visible_text import name_numbers
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.schema import MICROS
from springline.spark_jobs.streaming.windows.aggregation.partials import is_key
from springline.spark_jobs.streaming.windows.payload import Origin

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string)  # besides keys


def lines_of(groups: pa.RecordBatch) -> tuple[bytes, int]:
    """Encode groups as JSON lines, each with its slice or time, keys and row count; also return the total row count."""
    shown = (f.name for f in groups.schema if is_key(f.name) or any(fits(f.type) for fits in _SHOWN))
    names = [name for name in shown if name != "hash"]
    rows = groups.select(names).to_pylist()
    for row in rows:
        row |= {name: _format_instant(row[name]) for name in ("slice", "time") if name in row}
    lines = "".join(json.dumps(name_numbers(row), ensure_ascii=False, default=str) + "\n" for row in rows)
    return lines.encode(errors="backslashreplace"), sum(row["rows()"] for row in rows)


def late_dead_letter(
    groups: pa.RecordBatch, queries: Sequence[str], closed: int, source: str, origin: Origin
) -> DeadLetter:
    """Build the dead letter of late groups, one line each; their rows are at `origin` in the topic `source`."""
    lines, row_count = lines_of(groups)
    reason = (
        f"late: {row_count} rows among {origin}, for {', '.join(queries)}: other partitions closed their slices, up to "
        f"{_format_instant(closed)}, while theirs was idle; a line is a group"
    )
    partition, (start, _) = next(iter(origin.ranges.items()))
    return DeadLetter(start, lines, reason, partition, source)


def failed_dead_letter(group: pa.RecordBatch, error: str, begin: int, end: int) -> DeadLetter:
    """Build the dead letter of a group for which a query fails; it belongs to a window, not to a single message."""
    lines, row_count = lines_of(group)
    reason = (
        f"{error}; for a group of {row_count} rows in the window from "
        f"{_format_instant(begin)} to {_format_instant(end)}"
    )
    return DeadLetter(-1, lines, reason)


def _format_instant(micros: int) -> str:
    """Format a time in ISO format, or as a number if it is out of range."""
    try:
        return (_EPOCH + timedelta(seconds=micros // MICROS, microseconds=micros % MICROS)).isoformat()
    except OverflowError:
        return str(micros)
