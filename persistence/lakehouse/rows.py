"""The rows of a generation as Arrow batches, of the types that every table format has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import CorruptCopyError, UsageError
from springline.persistence.model.dataset import Dataset

_BATCH_ROWS = 1 << 16
_WIDER: Mapping[pa.DataType, Sequence[pa.DataType]] = {
    pa.int32(): (pa.int64(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
_SIMPLER: Mapping[pa.DataType, pa.DataType] = {
    pa.null(): pa.string(), pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32(),
    pa.date64(): pa.date32(), pa.int8(): pa.int32(), pa.int16(): pa.int32(), pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
}  # fmt: skip


class GenerationRows:
    """The rows of files of a generation, with further columns of text; `reader` yields them.

    A library through which they go may hide why they could not be read: `error` has it.

    Args:
        dataset: the generation, for messages.
        backend: the store that has its copy.
        location: the copy.
        names: the Parquet files to read, each held in memory while it is read unless the store is a folder.
        fields: values by column, the same in all rows.

    Raises:
        UsageError: the files are not Parquet, have not the same columns, or have one of `fields` themselves.
        CorruptCopyError: a file is damaged.
    """

    def __init__(
        self, dataset: Dataset, backend: Backend, location: str, names: Sequence[str], fields: Mapping[str, str]
    ) -> None:
        self.error: Exception | None = None
        self._dataset, self._backend, self._location = dataset, backend, location
        self._names, self._fields = names, fields
        self._columns = _schema_of(dataset, backend, location, names)
        existing = {name.casefold() for name in self._columns.names}
        if ambiguous := [name for name in fields if name.casefold() in existing]:
            raise UsageError(
                f"{dataset.ref} has a column {ambiguous[0]!r} itself: give the field {{{ambiguous[0]}}} another name "
                "in SPRINGLINE_TABLES, where it is the name of a further column"
            )
        self._schema = pa.schema([*self._columns, *(pa.field(name, pa.string()) for name in fields)])
        self.reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for name in self._names:
                with _reading(self._dataset, self._backend, self._location, name) as file:
                    yield from map(self._completed, file.iter_batches(_BATCH_ROWS))
        except Exception as error:
            self.error = error
            raise

    def _completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the further columns, and of the types of the schema."""
        texts = (pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in self._fields.values())
        columns = map(_cast, batch.columns, self._columns.types)
        return pa.RecordBatch.from_arrays([*columns, *texts], schema=self._schema)


def fit_rows(
    rows: pa.RecordBatchReader,
    columns: pa.Schema,
    where: str,
    on_error: Callable[[UsageError], object] = lambda error: None,
) -> pa.RecordBatchReader:
    """Return rows with the columns of a table, in its order and of its types, and then those that it lacks.

    Columns that the rows lack are NULL. `on_error` gets what is raised while the rows are read, since the library that
    reads them may hide it. Raises `UsageError` if a column has another type in the table.
    """
    by_name = {name.casefold(): index for index, name in enumerate(rows.schema.names)}
    existing = {name.casefold() for name in columns.names}
    for column in columns:
        index = by_name.get(column.name.casefold())
        if index is not None and not _fits(rows.schema.field(index).type, column.type):
            raise UsageError(
                f"{where} has the column {column.name!r} as {column.type}, not as {rows.schema.field(index).type}: "
                "change the type in the operation, or in the table with a tool of its format"
            )
    added = [column for column in rows.schema if column.name.casefold() not in existing]
    full = pa.schema([*(pa.field(column.name, column.type, column.nullable) for column in columns), *added])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            arrays = []
            for column in full:
                index = by_name.get(column.name.casefold())
                array = pa.nulls(batch.num_rows, column.type) if index is None else batch.column(index)
                if array.null_count and not column.nullable:
                    error = UsageError(f"{where} takes no NULL in the column {column.name!r}, and the rows have some")
                    on_error(error)
                    raise error
                arrays.append(_cast(array, column.type))
            yield pa.RecordBatch.from_arrays(arrays, schema=full)

    return pa.RecordBatchReader.from_batches(full, batches())


def simplify(schema: pa.Schema) -> pa.Schema:
    """Return a schema with types that every table format has, and that Spark reads.

    Example:
        >>> simplify(pa.schema({"n": pa.uint8(), "s": pa.large_string()})).types
        [DataType(int32), DataType(string)]
    """
    return pa.schema([pa.field(column.name, _simplified(column.type)) for column in schema])


def _schema_of(dataset: Dataset, backend: Backend, location: str, names: Sequence[str]) -> pa.Schema:
    """Return the columns of the files, which must be those of each, with types that every table format has."""
    first: pa.Schema | None = None
    for name in names:
        if not name.endswith(".parquet") or "/" in name:
            raise UsageError(
                f"{dataset.ref}: {name} is not a Parquet file directly in the dataset; only such datasets can be in a "
                "table"
            )
        with _reading(dataset, backend, location, name) as file:
            schema = file.schema_arrow.remove_metadata()
        if first is None:
            first = schema
        elif not schema.equals(first):
            raise UsageError(f"{dataset.ref}: {name} has other columns than {names[0]}")
    if first is None:
        raise UsageError(f"{dataset.ref} has no files for this table")
    return simplify(first)


@contextmanager
def _reading(dataset: Dataset, backend: Backend, location: str, name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of a copy; whatever Arrow raises inside the block is reported as damage of that file."""
    try:
        if isinstance(backend, LocalBackend):
            source = pa.OSFile(str(backend.root / location / name))
        else:
            source = pa.BufferReader(b"".join(backend.chunks(location, name)))
        with source, pq.ParquetFile(source) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the store's
        raise CorruptCopyError(f"{dataset.ref}: the rows of {name} cannot be read: {error}") from error


def _simplified(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a table has values of a type."""
    if kind in _SIMPLER:
        return _SIMPLER[kind]
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_dictionary(kind):
        return _simplified(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _simplified(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_simplified(kind.key_type), _simplified(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_simplified(kind.value_type))
    return kind


def _fits(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type is one of another, that of a column in a table."""
    kind, target = _simplified(kind), _simplified(target)
    if pa.types.is_decimal128(kind) and pa.types.is_decimal128(target):
        return bool(target.scale == kind.scale and target.precision >= kind.precision)
    if pa.types.is_struct(kind) and pa.types.is_struct(target):
        names = [each.name for each in kind] == [each.name for each in target]
        return names and all(_fits(a.type, b.type) for a, b in zip(kind, target, strict=True))
    if pa.types.is_list(kind) and pa.types.is_list(target):
        return _fits(kind.value_type, target.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(target):
        return _fits(kind.key_type, target.key_type) and _fits(kind.item_type, target.item_type)
    return bool(kind == target) or bool(target in _WIDER.get(kind, ()))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    return values.cast(kind, safe=not pa.types.is_timestamp(kind))  # nanoseconds are cut off
