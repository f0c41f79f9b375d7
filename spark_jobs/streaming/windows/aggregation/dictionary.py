"""The values of expressions for the rows of a chunk, and the codes of those that rows are grouped by.

Tables of codes live as long as a round. An expression over one text is worked out once for each text, not for each
row.
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
    Words,
)
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, Indexed, Numbers, Texts, column_of
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.expressions import ARROW, Expression, plain_text

_Table = TypeVar("_Table", TextTable, NumberTable)
_BOOL_HASHES = np.array([3, 1, 2], np.uint64)


@cache
def _bools() -> pa.Array:
    """The value of each code of a condition; pyarrow imports pandas where it makes the first array of a list."""
    return pa.array([None, False, True])


class Coder:
    """Values and codes of expressions; `begin` moves on to the next chunk."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._tables: dict[str, TextTable | NumberTable] = {}
        self._by_text: dict[str, Codes] = {}
        self._types: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._chunk: Chunk
        self._codes: dict[str, Codes] = {}
        self._arrays: dict[str, pa.Array] = {}
        self._numbers: dict[str, Numbers] = {}
        self._groups: dict[tuple[str, ...], Codes] = {}
        self._pairs: dict[tuple[str, ...], PairTable] = {}

    def begin(self, chunk: Chunk) -> None:
        """Forget the rows before; tables stay."""
        self._chunk = chunk
        self._codes, self._arrays, self._numbers, self._groups = {}, {}, {}, {}

    def numbers(self, expression: Expression) -> Numbers:
        """The value of an expression that is a number."""
        found = self._numbers.get(expression.sql)
        if found is None:
            plain = self._plain(expression)
            column = plain if isinstance(plain, Numbers) else column_of(self._evaluated(expression))
            assert isinstance(column, Numbers)
            found = self._numbers[expression.sql] = Numbers(_wide(column, expression), column.valid)
        return found

    def holds(self, expression: Expression) -> Flags:
        """Whether a condition holds."""
        return np.equal(self.codes(expression), 2)

    def codes(self, expression: Expression) -> Codes:
        """The code of its value for each row; of a condition 0 null, 1 false, 2 true."""
        found = self._codes.get(expression.sql)
        if found is None:
            found = self._codes[expression.sql] = self._coded(expression)
            self._types[expression.sql] = expression.type
        return found

    def groups(self, columns: tuple[Expression, ...]) -> Codes:
        """One code for the values of several expressions, the same for the same values; at least 1."""
        if not columns:
            return np.ones(self._chunk.rows, np.int32)
        name = tuple(column.sql for column in columns)
        found = self._groups.get(name)
        if found is None:
            if len(columns) == 1:
                found = self.codes(columns[0]) + np.int32(1)
            else:
                table = self._pairs.setdefault(name, PairTable())
                left, right = self.groups(columns[:-1]), self.codes(columns[-1])
                found = table.codes(left, right, self.groups_so_far(columns[:-1]), self.size(columns[-1]) - 1)
            self._groups[name] = found
        return found

    def groups_so_far(self, columns: tuple[Expression, ...]) -> int:
        """The greatest code of `groups`."""
        if len(columns) < 2:
            return self.size(columns[0]) if columns else 1
        return len(self._pairs[tuple(column.sql for column in columns)])

    def parts(self, columns: tuple[Expression, ...], groups: Ints) -> dict[Expression, Ints]:
        """The code of each expression from those of `groups`."""
        found: dict[Expression, Ints] = {}
        for count in range(len(columns), 1, -1):
            left, right = self._pairs[tuple(column.sql for column in columns[:count])].halves()
            found[columns[count - 1]] = right[groups]
            groups = left[groups]
        return found | ({columns[0]: groups - 1} if columns else {})

    def values(self, expression: Expression) -> pa.Array:
        """The value of each code."""
        if expression.type == "bool":
            return _bools()
        table = self._tables.get(expression.sql)
        if isinstance(table, TextTable):
            return table.texts()
        if table is None:
            return pa.nulls(1, ARROW[expression.type])
        numbers = table.numbers()
        plain = numbers.view(np.float64) if expression.type == "float" else numbers
        return pa.array(plain, mask=np.arange(plain.size) == 0)

    def hashes(self, expression: Expression) -> Words:
        """A hash of the value of each code."""
        if expression.type == "bool":
            return _BOOL_HASHES
        table = self._tables.get(expression.sql)
        return table.hashes() if table is not None else TextTable().hashes()

    def size(self, expression: Expression) -> int:
        """How many codes an expression has so far, null's among them."""
        return 3 if expression.type == "bool" else len(self._tables[expression.sql]) + 1

    def sizes(self) -> dict[str, int]:
        """How many values each expression that rows were grouped by had."""
        told = {name: 3 if kind == "bool" else len(self._tables[name]) + 1 for name, kind in self._types.items()}
        return dict(sorted(told.items()))

    def _coded(self, expression: Expression) -> Codes:
        plain = self._plain(expression)
        if isinstance(plain, Texts | Indexed) and expression.type == "text":
            return self._text_codes(expression.sql, plain)
        if self._is_over_one_text(expression):
            return self._by_dictionary(expression)
        if expression.type in ("int", "float"):
            return self._number_codes(expression.sql, self.numbers(expression))
        return self._result_codes(expression.sql, self._evaluated(expression), expression.type)

    def _plain(self, expression: Expression) -> Column | None:
        """The column that an expression is, if it is no more than that."""
        return self._chunk.columns.get(expression.node.name) if isinstance(expression.node, exp.Column) else None

    def _is_over_one_text(self, expression: Expression) -> bool:
        if len(expression.columns) != 1 or expression.columns[0] == self._stream.time:
            return False
        return isinstance(self._chunk.columns.get(expression.columns[0]), Texts | Indexed)

    def _text_codes(self, name: str, column: Texts | Indexed) -> Codes:
        table = self._table(name, TextTable)
        if isinstance(column, Texts):
            return table.codes(column.data, column.starts, column.lengths)
        texts = column.texts
        own = table.codes(texts.data, texts.starts, texts.lengths)
        return np.append(own, np.int32(0))[column.indices]  # -1 takes the last

    def _by_dictionary(self, expression: Expression) -> Codes:
        """Through the codes of the one text that it is over: only texts that are new are looked at."""
        column = expression.columns[0]
        source, table = self._column_codes(column)
        known = self._by_text.get(expression.sql, np.empty(0, np.int32))
        if known.size < len(table) + 1:
            texts = table.texts().slice(known.size)
            results = expression.values({column: texts}, len(texts))
            known = np.concatenate([known, self._result_codes(expression.sql, results, expression.type)])
            self._by_text[expression.sql] = known
        return known[source]

    def _result_codes(self, name: str, results: pa.Array, kind: str) -> Codes:
        if kind == "bool":
            flags = results.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int32)
            known = results.is_valid().to_numpy(zero_copy_only=False)
            return np.where(known, flags + 1, 0).astype(np.int32)
        column = column_of(results)
        if isinstance(column, Numbers):
            return self._number_codes(name, column)
        return self._text_codes(name, column)

    def _number_codes(self, name: str, column: Numbers) -> Codes:
        values = column.values
        if values.dtype == np.float64:
            values = np.where(values == 0, 0.0, values)  # no negative zero
        return self._table(name, NumberTable).codes(values.view(np.uint64), column.valid)

    def _column_codes(self, column: str) -> tuple[Codes, TextTable]:
        """The codes of a column of texts, and the table that they are of; it goes by the column's name in SQL."""
        name = self._names.setdefault(column, plain_text(exp.column(column, quoted=True)))
        found = self._codes.get(name)
        if found is None:
            texts = self._chunk.columns[column]
            assert isinstance(texts, Texts | Indexed)
            found = self._codes[name] = self._text_codes(name, texts)
            self._types[name] = "text"
        return found, self._table(name, TextTable)

    def _evaluated(self, expression: Expression) -> pa.Array:
        return expression.values(self._of(expression.columns), self._chunk.rows)

    def _of(self, names: Iterable[str]) -> dict[str, pa.Array]:
        """Columns as Arrow arrays."""
        for name in names:
            if name not in self._arrays:
                column = self._chunk.columns[name]
                if name == self._stream.time:
                    self._arrays[name] = pa.array(self._chunk.times).cast(ARROW["time"])
                elif isinstance(column, Numbers):
                    self._arrays[name] = pa.array(column.values, mask=~column.valid if column.valid.size else None)
                else:
                    codes, table = self._column_codes(name)
                    self._arrays[name] = table.texts().take(pa.array(codes))
        return {name: self._arrays[name] for name in names}

    def _table(self, name: str, kind: type[_Table]) -> _Table:
        table = self._tables.setdefault(name, kind())
        assert isinstance(table, kind)
        return table


def _wide(column: Numbers, expression: Expression) -> npt.NDArray[Any]:
    wanted = np.float64 if expression.type == "float" else np.int64
    return column.values.astype(wanted, copy=False)
