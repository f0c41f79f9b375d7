"""Results as the parquet files of one generation: one for each query, and a further one where it would grow large."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from springline.persistence.engine.store import Writing
from springline.persistence.model.dataset import Written
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.sql.expressions import ARROW
from springline.spark_jobs.streaming.sql.windowing import Rows
from springline.spark_jobs.streaming.windows.query import Query

HELD_BYTES = 64 << 20  # of results that wait to be written, all queries together
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def schema_of(query: Query) -> pa.Schema:
    """The columns of a query's results; the bounds of a window of rows are numbers of rows."""
    bound = pa.int64() if isinstance(query.window, Rows) else ARROW["time"]
    fixed = [("query", pa.string()), ("window_start", bound), ("window_end", bound)]
    return pa.schema([*fixed, *((column.name, ARROW[column.value.type]) for column in query.columns)])


class ResultFiles:
    """Writes results into a generation that is being written; `files` says which are whose."""

    def __init__(self, platform: Platform, writing: Writing) -> None:
        self._backend = platform.under if writing.straight_down else platform.cache
        self._location = writing.location
        self._held: dict[str, list[pa.Table]] = {}
        self._bytes = 0
        self._rows: Counter[str] = Counter()
        self._digest = xxhash.xxh3_128()
        self.files: dict[str, list[str]] = {}

    def add(self, query: str, results: pa.Table) -> None:
        """Add results of a query; those of other columns begin a file of their own."""
        held = self._held.setdefault(query, [])
        if held and not held[0].schema.equals(results.schema):
            self._write(query)
        self._held.setdefault(query, []).append(results)
        self._bytes += results.nbytes
        if self._bytes >= HELD_BYTES:
            self._flush()

    def written(self, seconds: float, report: Mapping[str, object]) -> Written:
        """Write what is held, and say what the generation holds, with `report` and the rows and files of each query."""
        self._flush()
        queries = {name: {"rows": self._rows[name], "files": files} for name, files in sorted(self.files.items())}
        return Written(self._rows.total(), self._digest.hexdigest(), seconds, {**report, "queries": queries})

    def _flush(self) -> None:
        for query in sorted(self._held):
            self._write(query)
        self._bytes = 0

    def _write(self, query: str) -> None:
        table = pa.concat_tables(self._held.pop(query))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue()
        files = self.files.setdefault(query, [])
        files.append(f"{_plain(query)}-{len(files)}.parquet")
        with self._backend.create(self._location, files[-1], content.size) as file:
            file.write(bytes(content))
        self._rows[query] += table.num_rows
        self._digest.update(content)


def _plain(query: str) -> str:
    """A query's name as part of a file's, in every store: other letters, and hidden names, are hashed."""
    return query if _PLAIN.fullmatch(query) else xxhash.xxh3_64_hexdigest(query.encode())
