"""Reads the columns and the first rows of a Parquet file, decoding no more than these need."""

from __future__ import annotations

from collections.abc import Iterator
from io import RawIOBase
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from springline.airflow.content.cell_text import cell_text, shortened
from springline.airflow.content.errors import UnreadableContentError
from springline.airflow.content.table_head import MOST_COLUMNS, ContentColumn, TableHead

_BUFFER = 64 << 10  # bytes of a column's pages that are read at a time
_MOST_TEXT, _MOST_PARTS = 16 << 20, 1_000_000  # bytes of one text, and things in one list, of a file's metadata
_BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, ArithmeticError, MemoryError)


def read_parquet_head(file: RawIOBase, place: str, limit: int) -> TableHead:
    """Return the columns and the first `limit` rows; raises `UnreadableContentError` if the file is broken."""
    try:
        parquet = pq.ParquetFile(
            file, buffer_size=_BUFFER, pre_buffer=False,
            thrift_string_size_limit=_MOST_TEXT, thrift_container_size_limit=_MOST_PARTS,
        )  # fmt: skip
        schema = parquet.schema_arrow
        columns = [ContentColumn(_name_of(field), shortened(str(field.type)), field.nullable) for field in schema]
        rows = list(_rows_of(parquet, limit)) if limit else []
        return TableHead("parquet", columns, rows, parquet.metadata.num_rows)
    except FileNotFoundError:
        raise  # it was deleted meanwhile
    except _BROKEN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnreadableContentError(
            f"{place} is not a Parquet file that can be read: {reason}; recompute the dataset, or restore it from its "
            "other copy"
        ) from error


def _rows_of(parquet: pq.ParquetFile, limit: int) -> Iterator[list[str | None]]:
    """Yield the first rows: of each row group only as many pages as they are in."""
    indices = range(min(MOST_COLUMNS, len(parquet.schema_arrow)))
    names = [parquet.schema_arrow.field(i).name for i in indices] if len(parquet.schema_arrow) > MOST_COLUMNS else None
    remaining = limit
    for group in range(parquet.metadata.num_row_groups):
        batches = parquet.iter_batches(batch_size=remaining, row_groups=[group], columns=names, use_threads=False)
        for batch in batches:
            columns = [_texts_of(column) for column in batch.slice(0, remaining).columns[:MOST_COLUMNS]]
            yield from ([column[i] for column in columns] for i in range(min(batch.num_rows, remaining)))
            remaining -= min(batch.num_rows, remaining)
            if not remaining:
                return


def _texts_of(column: pa.Array) -> list[str | None]:
    """Return the texts of a column's values; moments as Arrow writes them, since Python lacks some of them."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz:
        moments = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        return [None if moment is None else f"{moment}Z" for moment in moments.to_pylist()]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    return [_text_of(scalar) for scalar in column]


def _text_of(scalar: Any) -> str | None:
    try:
        return cell_text(scalar.as_py())
    except UnicodeDecodeError as error:
        return cell_text(error.object)  # a text whose bytes are none
    except (ValueError, ArithmeticError):
        return f"a value of type {scalar.type} that Python cannot represent"


def _name_of(field: pa.Field) -> str:
    return shortened(field.name)
