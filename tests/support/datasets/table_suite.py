"""The conformance suite of table formats: what every `LakehouseTable` has to fulfil."""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from springline.persistence.errors import UsageError
from springline.persistence.lakehouse.table import LakehouseTable, TableEntry
from springline.persistence.model.dataset import Ref

_DAY, _NEXT_DAY = {"ds": "2013-01-05"}, {"ds": "2013-01-06"}


class TableSuite(ABC):
    """The contract of a table format as tests, one fact each."""

    @pytest.fixture
    @abstractmethod
    def table(self) -> LakehouseTable:
        """Return a table that is not created yet."""

    @abstractmethod
    def reopen(self, table: LakehouseTable) -> LakehouseTable:
        """Return the same table as another process opens it."""

    def test_it_is_created_by_the_first_generation(self, table: LakehouseTable) -> None:
        assert table.version() is None

        version = table.replace(_entry(1), _rows(_DAY, [1, 2]))

        assert version == table.version() == self.reopen(table).version()
        assert _read(table) == sorted(_tuples(_DAY, [1, 2]))

    def test_the_generations_of_other_paths_are_appended(self, table: LakehouseTable) -> None:
        first = table.replace(_entry(1), _rows(_DAY, [1, 2]))
        second = table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))

        assert first != second
        assert _read(table) == sorted(_tuples(_DAY, [1, 2]) + _tuples(_NEXT_DAY, [3]))

    def test_a_later_generation_takes_the_place_of_the_rows_of_an_earlier_one(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, [1, 2]))
        table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))

        table.replace(_entry(2), _rows(_DAY, [4, 5, 6]))

        assert _read(table) == sorted(_tuples(_DAY, [4, 5, 6]) + _tuples(_NEXT_DAY, [3]))

    def test_a_retry_adds_nothing(self, table: LakehouseTable) -> None:
        first = table.replace(_entry(1), _rows(_DAY, [1, 2]))

        assert self.reopen(table).replace(_entry(1), _rows(_DAY, [1, 2])) == first
        assert table.version() == first
        assert _read(table) == sorted(_tuples(_DAY, [1, 2]))

    def test_a_late_retry_does_not_undo_a_later_generation(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, [1, 2]))
        later = table.replace(_entry(2), _rows(_DAY, [3]))

        self.reopen(table).replace(_entry(1), _rows(_DAY, [1, 2]))

        assert table.version() == later
        assert _read(table) == sorted(_tuples(_DAY, [3]))

    def test_a_generation_of_a_new_catalog_takes_the_place_of_the_same_number(self, table: LakehouseTable) -> None:
        table.replace(_entry(1, number=1), _rows(_DAY, [1, 2]))

        table.replace(_entry(1, number=2), _rows(_DAY, [3]))

        assert _read(table) == sorted(_tuples(_DAY, [3]))

    def test_a_writer_that_dies_while_it_writes_adds_nothing(self, table: LakehouseTable) -> None:
        class Killed(BaseException):
            pass

        def die() -> Any:
            yield _batch(_DAY, [1])
            raise Killed

        schema = _batch(_DAY, [1]).schema
        for _ in range(2):  # the first one before the table exists
            with pytest.raises((Killed, Exception)):
                table.replace(_entry(1), pa.RecordBatchReader.from_batches(schema, die()))
            table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))

        assert _read(self.reopen(table)) == sorted(_tuples(_NEXT_DAY, [3]))
        table.replace(_entry(1), _rows(_DAY, [1, 2]))
        assert _read(self.reopen(table)) == sorted(_tuples(_DAY, [1, 2]) + _tuples(_NEXT_DAY, [3]))

    def test_of_two_writers_of_one_generation_one_fails_or_finds_the_other(self, table: LakehouseTable) -> None:
        table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))
        other = self.reopen(table)

        def interrupted() -> Any:
            _elsewhere(lambda: other.replace(_entry(1), _rows(_DAY, [1, 2])))
            yield _batch(_DAY, [1, 2])

        schema = _batch(_DAY, [1]).schema
        with pytest.raises(Exception):  # noqa: B017 (each format has its own)
            table.replace(_entry(1), pa.RecordBatchReader.from_batches(schema, interrupted()))

        assert _read(self.reopen(table)) == sorted(_tuples(_DAY, [1, 2]) + _tuples(_NEXT_DAY, [3]))

    def test_writers_of_other_paths_do_not_disturb_each_other(self, table: LakehouseTable) -> None:
        table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))
        other = self.reopen(table)

        def interrupted() -> Any:
            _elsewhere(lambda: other.replace(_entry(2, "next", _NEXT_DAY), _rows(_NEXT_DAY, [4])))
            yield _batch(_DAY, [1, 2])

        schema = _batch(_DAY, [1]).schema
        for _ in range(2):  # a format may need a second attempt
            try:
                table.replace(_entry(1), pa.RecordBatchReader.from_batches(schema, interrupted()))
                break
            except Exception:
                continue

        assert _read(self.reopen(table)) == sorted(_tuples(_DAY, [1, 2]) + _tuples(_NEXT_DAY, [4]))

    def test_an_empty_generation_takes_the_rows_away(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, [1, 2]))

        table.replace(_entry(2), _rows(_DAY, []))

        assert _read(table) == []
        assert table.snapshot(str(table.version())).schema.names == ["a", "ds"]

    def test_a_table_can_begin_with_no_rows(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, []))
        table.replace(_entry(2), _rows(_DAY, [1]))

        assert _read(table) == sorted(_tuples(_DAY, [1]))

    def test_a_dataset_without_fields_is_the_whole_table(self, table: LakehouseTable) -> None:
        for generation, values in ((1, [1, 2]), (2, [3])):
            table.replace(TableEntry(Ref("shop/clean", generation), generation), _rows({}, values))

        assert _read(table) == sorted([(3,)])

    @pytest.mark.parametrize(
        "value", ["it's", 'a "quote"', "x = y", "100%", "ünï", "2013-01-05 10:00", "a;b--", "a\\b"]
    )
    def test_the_value_of_a_field_may_have_any_characters(self, table: LakehouseTable, value: str) -> None:
        odd = {"ds": value}
        table.replace(_entry(1, "next", _NEXT_DAY), _rows(_NEXT_DAY, [3]))
        for generation, values in ((1, [1, 2]), (2, [4])):
            table.replace(_entry(generation, "odd", odd), _rows(odd, values))

        assert _read(table) == sorted(_tuples(odd, [4]) + _tuples(_NEXT_DAY, [3]))

    def test_fields_may_have_capitals_and_be_several(self, table: LakehouseTable) -> None:
        fields = {"Day": "2013-01-05", "hour": "07"}
        for generation, values in ((1, [1, 2]), (2, [4])):
            table.replace(_entry(generation, "odd", fields), _rows(fields, values))
        other = {"Day": "2013-01-05", "hour": "08"}
        table.replace(_entry(1, "other", other), _rows(other, [5]))

        assert _read(table) == sorted(_tuples(fields, [4]) + _tuples(other, [5]))

    def test_a_table_without_partitions_keeps_the_same_rows(self, table: LakehouseTable) -> None:
        for generation, fields, values in ((1, _DAY, [1, 2]), (1, _NEXT_DAY, [3]), (2, _DAY, [4])):
            entry = TableEntry(Ref(f"rounds/{fields['ds']}", generation), generation, fields, is_partitioned=False)
            table.replace(entry, _rows(fields, values))

        assert _read(table) == sorted(_tuples(_DAY, [4]) + _tuples(_NEXT_DAY, [3]))

    def test_a_column_that_the_table_lacks_is_added(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, [1]))
        wider = pa.record_batch({"a": [2], "b": ["x"], "ds": ["2013-01-06"]})

        table.replace(_entry(1, "next", _NEXT_DAY), _reader(wider))
        table.replace(_entry(2), _rows(_DAY, [3]))

        rows = _table(table)
        assert sorted(rows.select(["a", "b", "ds"]).to_pylist(), key=str) == [
            {"a": 2, "b": "x", "ds": "2013-01-06"}, {"a": 3, "b": None, "ds": "2013-01-05"},
        ]  # fmt: skip

    @pytest.mark.parametrize("values", [["text"], [1.5], [True], [b"x"], [Decimal("1.5")], [[1]], [{"x": 1}]])
    def test_a_column_of_another_type_is_refused_with_both_types(
        self, table: LakehouseTable, values: list[object]
    ) -> None:
        table.replace(_entry(1), _rows(_DAY, [1]))
        other = pa.record_batch({"a": pa.array(values), "ds": ["2013-01-06"]})

        with pytest.raises(UsageError, match=r"'a' as int64, not as .*: change the type"):
            table.replace(_entry(1, "next", _NEXT_DAY), _reader(other))

        assert _read(table) == sorted(_tuples(_DAY, [1]))

    def test_a_narrower_type_fits(self, table: LakehouseTable) -> None:
        table.replace(_entry(1), _rows(_DAY, [1]))
        narrower = pa.record_batch({"a": pa.array([2], pa.int32()), "ds": ["2013-01-06"]})

        table.replace(_entry(1, "next", _NEXT_DAY), _reader(narrower))

        assert _read(table) == sorted(_tuples(_DAY, [1]) + _tuples(_NEXT_DAY, [2]))

    def test_a_column_that_takes_no_null_refuses_rows_without_it(self, table: LakehouseTable) -> None:
        required = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("ds", pa.string())])
        first = pa.record_batch([pa.array([1]), pa.array(["2013-01-05"])], schema=required)
        table.replace(_entry(1), _reader(first))
        if pa.schema(table.snapshot(str(table.version())).schema).field("a").nullable:
            return  # the format forgets it
        for batch in (
            pa.record_batch({"a": pa.array([None], pa.int64()), "ds": ["2013-01-06"]}),
            pa.record_batch({"ds": ["2013-01-06"]}),
        ):
            with pytest.raises(UsageError, match="takes no NULL in the column 'a'"):
                table.replace(_entry(1, "next", _NEXT_DAY), _reader(batch))

        assert _read(table) == _tuples(_DAY, [1])

    def test_values_come_back_as_they_were(self, table: LakehouseTable) -> None:
        values = {
            "i": pa.array([1, None], pa.int32()), "l": pa.array([1 << 60, None]),
            "f": pa.array([0.1, None], pa.float32()),
            "d": pa.array([float("inf"), None]), "s": pa.array(["ünï", None]), "b": pa.array([b"\x00\xff", None]),
            "t": pa.array([True, None]), "day": pa.array([15_000, None], pa.date32()),
            "at": pa.array([-1, None], pa.timestamp("us", "UTC")), "dec": pa.array([Decimal("-12.30"), None]),
            "list": pa.array([[1, None], None]), "struct": pa.array([{"x": 1, "y": "z"}, None]),
        }  # fmt: skip
        batch = pa.record_batch({**values, "ds": ["2013-01-05"] * 2})

        table.replace(_entry(1), _reader(batch))

        assert _table(table).select(batch.schema.names).to_pylist() == batch.to_pylist()

    def test_a_version_stays_as_it_was(self, table: LakehouseTable) -> None:
        first = table.replace(_entry(1), _rows(_DAY, [1, 2]))
        second = table.replace(_entry(2), _rows(_DAY, [3]))

        assert _read(table, first) == sorted(_tuples(_DAY, [1, 2]))
        assert _read(table, second) == sorted(_tuples(_DAY, [3]))

    def test_the_splits_have_each_row_once_in_another_process(self, table: LakehouseTable) -> None:
        for day in range(1, 6):
            fields = {"ds": f"2013-01-0{day}"}
            table.replace(_entry(1, f"day{day}", fields), _rows(fields, [day, day + 10]))

        snapshot = table.snapshot(str(table.version()))
        splits = pickle.loads(pickle.dumps(snapshot.splits))

        rows = Counter(
            tuple(row.values()) for split in splits for batch in split.batches() for row in batch.to_pylist()
        )
        assert len(splits) == 5
        assert rows == {(a, f"2013-01-0{day}"): 1 for day in range(1, 6) for a in (day, day + 10)}

    def test_a_version_that_is_not_there_is_missing(self, table: LakehouseTable) -> None:
        with pytest.raises(FileNotFoundError):
            table.snapshot("1")

        table.replace(_entry(1), _rows(_DAY, [1]))

        with pytest.raises(FileNotFoundError):
            table.snapshot("999999")


def _elsewhere(action: Callable[[], object]) -> None:
    """Do something in another thread, as if in another process, and wait for it."""
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def _entry(generation: int, path: str = "day", fields: dict[str, str] = _DAY, *, number: int = 0) -> TableEntry:
    return TableEntry(Ref(f"etl/{path}", generation), number or generation, fields)


def _batch(fields: dict[str, str], values: Sequence[int]) -> pa.RecordBatch:
    columns = {name: pa.array([value] * len(values), pa.string()) for name, value in fields.items()}
    return pa.record_batch({"a": pa.array(values, pa.int64()), **columns})


def _reader(batch: pa.RecordBatch) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _rows(fields: dict[str, str], values: Sequence[int]) -> pa.RecordBatchReader:
    return _reader(_batch(fields, values))


def _tuples(fields: dict[str, str], values: Sequence[int]) -> list[tuple[Any, ...]]:
    return [(value, *fields.values()) for value in values]


def _table(table: LakehouseTable, version: str | None = None) -> pa.Table:
    snapshot = table.snapshot(version or str(table.version()))
    batches = [batch for split in snapshot.splits for batch in split.batches()]
    return pa.Table.from_batches(batches, snapshot.schema)


def _read(table: LakehouseTable, version: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in _table(table, version).to_pylist())
