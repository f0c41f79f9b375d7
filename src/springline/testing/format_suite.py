"""Conformance suite of formats: subclass `FormatSuite`, and say how rows are encoded."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import array_of
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.field_types import sql_type
from springline.spark_jobs.streaming.sources.format import Format, open_format
from springline.spark_jobs.streaming.sources.layout import Layout

Row = Mapping[str, Any]
_FIELDS: Mapping[str, str] = {"name": "text", "count": "int", "ratio": "float"}
_ROWS: Sequence[Row] = [
    {"name": "a", "count": 3, "ratio": 0.25},
    {"name": "Zürich, 'Köln' \"рейс\" 🌍\ttab", "count": -(1 << 63), "ratio": -1.5e300},
    {"name": "", "count": (1 << 63) - 1, "ratio": 5e-324},
    {"name": "0", "count": 0, "ratio": 0.0},
]
_FIRST_OFFSET = 100


class FormatSuite(ABC):
    """The contract of a format (`springline.formats.Format`) as tests, one fact each: subclass it in a test file.

    Attributes:
        format: the name of its entry point.
        options: the table `format_options`.
        fields: the name and the type of each field of the rows.
        rows: rows that can be encoded; override both where a format cannot express these.

    Example:
        A format of one JSON object a message::

            import json
            from springline.testing import FormatSuite

            class TestObjects(FormatSuite):
                format = "objects"

                def encode(self, row):
                    return json.dumps(row).encode()

                wrong = [(b'{"count": "three"}', "count is no int")]
    """

    format: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    fields: ClassVar[Mapping[str, str]] = _FIELDS
    rows: ClassVar[Sequence[Row]] = _ROWS
    wrong: ClassVar[Sequence[tuple[bytes, str]]] = ()
    """Messages of one row that is not as declared, each with a part of the reason, such as the name of its field."""

    @abstractmethod
    def encode(self, row: Row) -> bytes:
        """Return a message of one row; a value of None is NULL."""

    def encode_more(self, row: Row) -> bytes | None:
        """Return a message of one row with a field that is not declared; None if the format has no names."""
        return None

    # ---- what it reads

    def test_rows_are_read_as_they_were_written(self) -> None:
        """To the last bit, in their order."""
        self._check_rows(self._read([self.encode(row) for row in self.rows]), self.rows)

    def test_a_null_is_one(self) -> None:
        """In every field, and never an error, a zero or an empty text."""
        rows = [{**self.rows[0], name: None} for name in self.fields]
        self._check_rows(self._read([self.encode(row) for row in rows]), rows)

    @pytest.mark.parametrize("width", [1, 2])
    def test_few_fields_are_read_as_with_all(self, width: int) -> None:
        """Whichever they are."""
        values = [self.encode(row) for row in self.rows]
        for first in range(len(self.fields) - width + 1):
            names = list(self.fields)[first : first + width]
            rows = [{name: row[name] for name in names} for row in self.rows]
            self._check_rows(self._read(values, names), rows)

    def test_a_field_that_is_not_declared_is_ignored(self) -> None:
        """Producers add fields before jobs read them."""
        values = [self.encode_more(row) for row in self.rows]
        if None in values:
            pytest.skip("its fields have no names")
        self._check_rows(self._read([value for value in values if value is not None]), self.rows)

    def test_a_message_without_a_value_has_no_rows(self) -> None:
        """It deletes its key in a compacted topic, and is no fault."""
        good = self.encode(self.rows[0])
        messages = [Message(0, good), Message(1, b"", is_null=True), Message(2, good)]
        table, dead = rows_of(self._open(), [MessageBatch.of(messages)])
        assert (table.num_rows, dead) == (2, [])

    def test_the_division_into_batches_changes_nothing(self) -> None:
        """All at once, one by one, or in two."""
        values = [self.encode(row) for row in self.rows] * 50
        values.insert(70, b"\xff\xfe")
        at_once = self._read(values)
        for size in (1, 99):
            table, dead = self._read(values, size=size)
            assert table.equals(at_once[0]) and dead == at_once[1]

    def test_an_unknown_option_is_refused(self) -> None:
        """When the job is declared."""
        with pytest.raises(InvalidFormatError, match="no_such_option"):
            open_format(Layout(self.format, self.fields, {**self.options, "no_such_option": 1}), [])

    # ---- what cannot be read

    def test_a_row_that_is_not_as_declared_is_a_dead_letter(self) -> None:
        """With its place, its bytes and the reason; its neighbours are read."""
        assert self.wrong, "give messages of rows that are not as declared"
        good = self.encode(self.rows[0])
        for value, reason in self.wrong:
            table, dead = self._read([good, value, good])
            self._check_rows((table, []), [self.rows[0]] * 2)
            (letter,) = dead
            assert (letter.offset, letter.partition, letter.value.strip()) == (_FIRST_OFFSET + 1, 2, value.strip())
            assert reason in letter.reason

    def test_no_bytes_end_a_job(self) -> None:
        """A message that is cut, changed or random: a row or a dead letter, and its neighbours are read."""
        chance, good = random.Random(1), self.encode(self.rows[1])
        damaged = [good[:length] for length in range(len(good))]
        damaged += [
            good[:place] + bytes([chance.randrange(256)]) + good[place + 1 :]
            for place in range(len(good))
            for _ in "ab"
        ]
        damaged += [chance.randbytes(chance.randrange(60)) for _ in range(200)]
        layout, first = Layout(self.format, self.fields, self.options), self.encode(self.rows[0])
        for value in damaged:
            messages = [Message(0, first), Message(1, value), Message(2, first)]
            dead: list[DeadLetter] = []
            table = pa.concat_tables(
                [
                    pa.table(
                        {name: array_of(each, sql_type(layout.fields[name])) for name, each in chunk.columns.items()}
                    )
                    for chunk in open_format(layout, list(self.fields)).chunks([MessageBatch.of(messages)], dead)
                ]
            )
            table.validate(full=True)
            rows = table.to_pylist()
            assert rows[0] == rows[-1] == dict(self.rows[0]), value
            assert {letter.offset for letter in dead} <= {1} and all(letter.reason for letter in dead), value

    def test_a_row_that_is_refused_later_is_the_bytes_that_are_read_again(self) -> None:
        """A row whose time is out of range: a retry of its dead letter reads this row and no other."""
        opened = self._open()
        values = [self.encode(row) for row in self.rows]
        for chunk in opened.chunks([self._batch(values)], []):
            for place, row in enumerate(chunk.source_rows.tolist()):
                (letter,) = chunk.source.dead_letters(chunk.source_rows[place : place + 1], lambda row, place: "late")
                assert letter.reason == "row 1: late" and letter.offset == _FIRST_OFFSET + row
                self._check_rows(self._read([letter.value]), [self.rows[row]])

    # ---- its tools

    def _open(self, names: Sequence[str] | None = None) -> Format:
        return open_format(
            Layout(self.format, self.fields, self.options), list(self.fields) if names is None else names
        )

    def _batch(self, values: Sequence[bytes]) -> MessageBatch:
        return MessageBatch.of([Message(_FIRST_OFFSET + i, value, partition=2) for i, value in enumerate(values)])

    def _read(
        self, values: Sequence[bytes], names: Sequence[str] | None = None, size: int = 1_000_000
    ) -> tuple[pa.Table, list[DeadLetter]]:
        batch = self._batch(values)
        table, dead = rows_of(self._open(names), [batch[first : first + size] for first in range(0, len(batch), size)])
        table.validate(full=True)
        return table.combine_chunks(), dead

    def _check_rows(self, read: tuple[pa.Table, list[DeadLetter]], rows: Sequence[Row]) -> None:
        table, dead = read
        assert not dead
        assert [dict(row) for row in rows] == table.to_pylist()
