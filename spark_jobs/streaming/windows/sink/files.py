"""Writes results as Parquet files of one generation: one per query, and further ones if it grows large."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from springline.persistence.engine.store import OpenWrite
from springline.persistence.model.dataset import OperationResult
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.sql.windowing import CountWindow
from springline.spark_jobs.streaming.windows.query import Query

BUFFERED_BYTES = 64 << 20  # of buffered results, over all queries
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def result_schema(query: Query) -> pa.Schema:
    """Return the schema of a query's results; the bounds of a window of rows are row numbers."""
    bound = pa.int64() if isinstance(query.window, CountWindow) else arrow_type("timestamp")
    fixed = [("query", pa.string()), ("window_start", bound), ("window_end", bound)]
    return pa.schema([*fixed, *((column.name, arrow_type(column.value.type)) for column in query.columns)])


class ResultFiles:
    """Writes results into a generation that is being written; `files` has the file names of each query."""

    def __init__(self, platform: Platform, writing: OpenWrite) -> None:
        self._backend = platform.under if writing.bypasses_cache else platform.cache
        self._location = writing.location
        self._buffered_tables: dict[str, list[pa.Table]] = {}
        self._buffered_bytes = 0
        self._rows: Counter[str] = Counter()
        self._digest = xxhash.xxh3_128()
        self.files: dict[str, list[str]] = {}

    def add(self, query: str, results: pa.Table) -> None:
        """Add results of a query; results with other columns start another file."""
        tables = self._buffered_tables.setdefault(query, [])
        if tables and not tables[0].schema.equals(results.schema):
            self._write(query)
        self._buffered_tables.setdefault(query, []).append(results)
        self._buffered_bytes += results.nbytes
        if self._buffered_bytes >= BUFFERED_BYTES:
            self._flush()

    def finish(self, seconds: float, report: Mapping[str, object]) -> OperationResult:
        """Write the buffered results; return the operation result, with `report` and each query's rows and files."""
        self._flush()
        queries = {name: {"rows": self._rows[name], "files": files} for name, files in sorted(self.files.items())}
        return OperationResult(self._rows.total(), self._digest.hexdigest(), seconds, {**report, "queries": queries})

    def _flush(self) -> None:
        for query in sorted(self._buffered_tables):
            self._write(query)
        self._buffered_bytes = 0

    def _write(self, query: str) -> None:
        table = pa.concat_tables(self._buffered_tables.pop(query))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue()
        files = self.files.setdefault(query, [])
        files.append(f"{_file_stem(query)}-{len(files)}.parquet")
        with self._backend.create(self._location, files[-1], content.size) as file:
            file.write(bytes(content))
        self._rows[query] += table.num_rows
        self._digest.update(content)


def _file_stem(query: str) -> str:
    """Return a query's name as a file name for every store: names with other characters, or hidden, are hashed."""
    return query if _PLAIN.fullmatch(query) else xxhash.xxh3_64_hexdigest(query.encode())
