"""Dictionary encoding of expressions: their values for the rows of a chunk, and codes of the values for grouping.

The code tables last for one round. An expression over a single text column is evaluated once per distinct text, not
once per row.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from springline.spark_jobs.streaming.kernels.hash_tables import (
    Codes,
    Flags,
    Ints,
    NumberTable,
    PairTable,
    TextTable,
    UInt64s,
)
from springline.spark_jobs.streaming.sources.chunk import (
    Chunk,
    Column,
    DictionaryColumn,
    NumberColumn,
    TextColumn,
    column_of,
)
from springline.spark_jobs.streaming.sources.field_types import arrow_type, is_stored_as_number, typed
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.expressions import Expression, canonical_sql

_Table = TypeVar("_Table", TextTable, NumberTable)
_BOOL_HASHES = np.array([3, 1, 2], np.uint64)


@cache
def _bools() -> pa.Array:
    """Return the value of each code of a condition; lazy, since pyarrow imports pandas for an array of a list."""
    return pa.array([None, False, True])


class DictionaryEncoder:
    """Values and codes of expressions; `begin` moves on to the next chunk."""

    def __init__(self, stream: Stream) -> None:
        self._kinds = stream.sql_types
        self._tables: dict[str, TextTable | NumberTable] = {}
        self._by_text: dict[str, Codes] = {}
        self._types: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._chunk: Chunk
        self._codes: dict[str, Codes] = {}
        self._arrays: dict[str, pa.Array] = {}
        self._numbers: dict[str, NumberColumn] = {}
        self._groups: dict[tuple[str, ...], Codes] = {}
        self._pairs: dict[tuple[str, ...], PairTable] = {}

    def begin(self, chunk: Chunk) -> None:
        """Start a chunk: drop the values of the previous rows, and keep the code tables."""
        self._chunk = chunk
        self._codes, self._arrays, self._numbers, self._groups = {}, {}, {}, {}

    def numbers(self, expression: Expression) -> NumberColumn:
        """Return the values of an expression that lies in columns as numbers."""
        numbers = self._numbers.get(expression.sql)
        if numbers is None:
            plain = self._plain_column(expression)
            column = plain if isinstance(plain, NumberColumn) else column_of(self._evaluate(expression))
            assert isinstance(column, NumberColumn)
            numbers = self._numbers[expression.sql] = NumberColumn(_widened_values(column, expression), column.valid)
        return numbers

    def holds(self, expression: Expression) -> Flags:
        """Return for each row whether a condition is true."""
        return np.equal(self.codes(expression), 2)

    def codes(self, expression: Expression) -> Codes:
        """Return the code of the expression's value for each row; for a condition 0 is null, 1 false, 2 true."""
        codes = self._codes.get(expression.sql)
        if codes is None:
            codes = self._codes[expression.sql] = self._encode(expression)
            self._types[expression.sql] = expression.type
        return codes

    def groups(self, columns: tuple[Expression, ...]) -> Codes:
        """Return one code for the values of several expressions per row, equal for equal values; codes begin at 1."""
        if not columns:
            return np.ones(self._chunk.rows, np.int32)
        name = tuple(column.sql for column in columns)
        groups = self._groups.get(name)
        if groups is None:
            if len(columns) == 1:
                groups = self.codes(columns[0]) + np.int32(1)
            else:
                table = self._pairs.setdefault(name, PairTable())
                left, right = self.groups(columns[:-1]), self.codes(columns[-1])
                groups = table.codes(left, right, self.max_group_code(columns[:-1]), self.size(columns[-1]) - 1)
            self._groups[name] = groups
        return groups

    def max_group_code(self, columns: tuple[Expression, ...]) -> int:
        """Return the greatest code that `groups` has returned."""
        if len(columns) < 2:
            return self.size(columns[0]) if columns else 1
        return len(self._pairs[tuple(column.sql for column in columns)])

    def codes_by_expression(self, columns: tuple[Expression, ...], groups: Ints) -> dict[Expression, Ints]:
        """Return the codes of each expression for the given codes of `groups`."""
        codes: dict[Expression, Ints] = {}
        for count in range(len(columns), 1, -1):
            left, right = self._pairs[tuple(column.sql for column in columns[:count])].pairs()
            codes[columns[count - 1]] = right[groups]
            groups = left[groups]
        return codes | ({columns[0]: groups - 1} if columns else {})

    def values(self, expression: Expression) -> pa.Array:
        """Return the value of each code."""
        if expression.type == "boolean":
            return _bools()
        table = self._tables.get(expression.sql)
        if isinstance(table, TextTable):
            return typed(table.texts(), expression.type)
        if table is None:
            return pa.nulls(1, arrow_type(expression.type))
        numbers = table.numbers()
        plain = numbers.view(np.float64) if expression.type == "float" else numbers
        return typed(pa.array(plain, mask=np.arange(plain.size) == 0), expression.type)

    def hashes(self, expression: Expression) -> UInt64s:
        """Return a hash of the value of each code."""
        if expression.type == "boolean":
            return _BOOL_HASHES
        table = self._tables.get(expression.sql)
        return table.hashes() if table is not None else TextTable().hashes()

    def size(self, expression: Expression) -> int:
        """Return how many codes an expression has so far, including the code of null."""
        return 3 if expression.type == "boolean" else len(self._tables[expression.sql]) + 1

    def sizes(self) -> dict[str, int]:
        """Return how many codes each expression has that rows were grouped by, including the code of null."""
        sizes = {name: 3 if kind == "boolean" else len(self._tables[name]) + 1 for name, kind in self._types.items()}
        return dict(sorted(sizes.items()))

    def _encode(self, expression: Expression) -> Codes:
        plain = self._plain_column(expression)
        if isinstance(plain, TextColumn | DictionaryColumn):
            return self._text_codes(expression.sql, plain)
        if self._is_over_one_text(expression):
            return self._codes_by_text(expression)
        if is_stored_as_number(expression.type):
            return self._number_codes(expression.sql, self.numbers(expression))
        return self._result_codes(expression.sql, self._evaluate(expression), expression.type)

    def _plain_column(self, expression: Expression) -> Column | None:
        """Return the column, if the expression is only a column."""
        return self._chunk.columns.get(expression.node.name) if isinstance(expression.node, exp.Column) else None

    def _is_over_one_text(self, expression: Expression) -> bool:
        if len(expression.columns) != 1:
            return False
        return isinstance(self._chunk.columns.get(expression.columns[0]), TextColumn | DictionaryColumn)

    def _text_codes(self, name: str, column: TextColumn | DictionaryColumn) -> Codes:
        table = self._table(name, TextTable)
        if isinstance(column, TextColumn):
            return table.codes(column.data, column.starts, column.lengths)
        texts = column.texts
        own = table.codes(texts.data, texts.starts, texts.lengths)
        return np.append(own, np.int32(0))[column.indices]  # index -1 selects the last

    def _codes_by_text(self, expression: Expression) -> Codes:
        """Encode an expression over one text column: evaluate it only for the texts that are new in the table."""
        column = expression.columns[0]
        source, table = self._column_codes(column)
        codes = self._by_text.get(expression.sql, np.empty(0, np.int32))
        if codes.size < len(table) + 1:
            texts = typed(table.texts().slice(codes.size), self._kinds[column])
            results = expression.values({column: texts}, len(texts))
            codes = np.concatenate([codes, self._result_codes(expression.sql, results, expression.type)])
            self._by_text[expression.sql] = codes
        return codes[source]

    def _result_codes(self, name: str, results: pa.Array, kind: str) -> Codes:
        if kind == "boolean":
            flags = results.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int32)
            is_valid = results.is_valid().to_numpy(zero_copy_only=False)
            return np.where(is_valid, flags + 1, 0).astype(np.int32)
        column = column_of(results)
        if isinstance(column, NumberColumn):
            return self._number_codes(name, column)
        return self._text_codes(name, column)

    def _number_codes(self, name: str, column: NumberColumn) -> Codes:
        return self._table(name, NumberTable).codes(column.bits(), column.valid)

    def _column_codes(self, column: str) -> tuple[Codes, TextTable]:
        """Return the codes of a text column and its table, which is stored under the column's SQL name."""
        name = self._names.setdefault(column, canonical_sql(exp.column(column, quoted=True)))
        codes = self._codes.get(name)
        if codes is None:
            texts = self._chunk.columns[column]
            assert isinstance(texts, TextColumn | DictionaryColumn)
            codes = self._codes[name] = self._text_codes(name, texts)
            self._types[name] = self._kinds[column]
        return codes, self._table(name, TextTable)

    def _evaluate(self, expression: Expression) -> pa.Array:
        return expression.values(self._arrow_columns(expression.columns), self._chunk.rows)

    def _arrow_columns(self, names: Iterable[str]) -> dict[str, pa.Array]:
        """Return columns as Arrow arrays."""
        for name in names:
            if name not in self._arrays:
                column = self._chunk.columns[name]
                if isinstance(column, NumberColumn):
                    array = pa.array(column.values, mask=~column.valid if column.valid.size else None)
                else:
                    codes, table = self._column_codes(name)
                    array = table.texts().take(pa.array(codes))
                self._arrays[name] = typed(array, self._kinds[name])
        return {name: self._arrays[name] for name in names}

    def _table(self, name: str, kind: type[_Table]) -> _Table:
        table = self._tables.setdefault(name, kind())
        assert isinstance(table, kind)
        return table


def _widened_values(column: NumberColumn, expression: Expression) -> npt.NDArray[Any]:
    dtype = np.float64 if expression.type == "float" else np.int64
    return column.values.astype(dtype, copy=False)
