"""Dead letters of a reducer: groups that came late, with where their rows are, and such as a query fails for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.schema import MICROS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string)


@dataclass(frozen=True)
class Origin:
    """Where the rows of a buffer of partials are: a partition of the source, and the offsets [start, to) of a round."""

    partition: int
    start: int
    to: int

    def encode(self) -> str:
        """For the metadata of a buffer."""
        return json.dumps([self.partition, self.start, self.to])

    @staticmethod
    def of(batch: pa.RecordBatch) -> Origin:
        """The inverse, of a buffer that a mapper sent."""
        return Origin(*json.loads(batch.schema.metadata[b"from"]))


def lines_of(groups: pa.RecordBatch) -> tuple[bytes, int]:
    """Groups as lines of JSON, each with its slice or time, its keys, and its rows; and all of their rows."""
    names = [field.name for field in groups.schema if any(fits(field.type) for fits in _SHOWN) and field.name != "hash"]
    rows = groups.select(names).to_pylist()
    for row in rows:
        row |= {name: _said(row[name]) for name in ("slice", "time") if name in row}
    lines = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    return lines.encode(errors="backslashreplace"), sum(row["rows()"] for row in rows)


def late_letter(groups: pa.RecordBatch, queries: Sequence[str], closed: int, source: str, origin: Origin) -> DeadLetter:
    """A letter of the groups that came late, a line each; their rows are those at `origin` in the topic `source`."""
    lines, many = lines_of(groups)
    reason = (
        f"late: {many} rows among offsets {origin.start} to {origin.to - 1}, for {', '.join(queries)}: other "
        f"partitions had closed their slices, up to {_said(closed)}, while this one was idle; a line is a group"
    )
    return DeadLetter(origin.start, lines, reason, origin.partition, source)


def failed_letter(group: pa.RecordBatch, error: str, begin: int, end: int) -> DeadLetter:
    """A letter of a group for which a query cannot be computed: it is of a window, and of no message alone."""
    lines, many = lines_of(group)
    reason = f"{error}; for a group of {many} rows in the window from {_said(begin)} to {_said(end)}"
    return DeadLetter(-1, lines, reason)


def _said(micros: int) -> str:
    """A moment in ISO's form, or the number where it is none."""
    try:
        return (_EPOCH + timedelta(seconds=micros // MICROS, microseconds=micros % MICROS)).isoformat()
    except OverflowError:
        return str(micros)
