"""What clients write: read back as it was, and refused where it is something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.tracker import wire as module
from springline.spark_jobs.streaming.tracker.wire import SCHEMA, TrackerRequests
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT
from tests.support.examples import examples

ROWS = [(0, 1, True, 5), (NO_ROOT - 1, 63, False, (1 << 64) - 1)]


def batch(schema: pa.Schema = SCHEMA, **columns: object) -> bytes:
    """A message of these columns, the others of one row as they should be."""
    values = {"root": [1], "attempt": [1], "begins": [True], "value": [7], **columns}
    arrays = [pa.array(values.get(field.name, [0]), field.type) for field in schema]
    return arrow_bytes(pa.RecordBatch.from_arrays(arrays, schema=schema))


def test_rows_come_back_as_they_were() -> None:
    """Any root but the last, any value."""
    columns = TrackerRequests.read(TrackerRequests.of(ROWS).encode())
    assert [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)] == ROWS
    assert TrackerRequests.read(TrackerRequests.of([]).encode()).roots.size == 0


@pytest.mark.parametrize(
    ("message", "expected_message"),
    [
        (b"hello", "not an Arrow stream"),
        (b"", "not an Arrow stream"),
        (batch(root=[NO_ROOT]), "is not the id of a root"),
        (batch(attempt=[0]), "attempts 0 to 0: they count from 1 to 63"),
        (batch(attempt=[64]), "attempts 64 to 64"),
        (batch(value=[None]), "a value is missing"),
        (batch(pa.schema([("root", pa.int64())])), "its columns are root int64; they must be root uint64, attempt"),
    ],
)
def test_what_is_something_else_is_refused_in_words(message: bytes, expected_message: str) -> None:
    """As a reason in the dead letters."""
    with pytest.raises(InvalidUpdateError, match=expected_message):
        TrackerRequests.read(message)


def test_a_message_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has room for so many."""
    monkeypatch.setattr(module, "MOST", 1)
    with pytest.raises(InvalidUpdateError, match="2 rows in a message; 1 at most"):
        TrackerRequests.read(TrackerRequests.of(ROWS).encode())


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 600))
def test_a_damaged_message_is_refused_or_read_and_nothing_else(changes: list[tuple[int, int]], cut: int) -> None:
    """Bytes that were changed, and an end that is missing."""
    message = bytearray(TrackerRequests.of(ROWS).encode())
    for place, value in changes:
        message[place % len(message)] = value
    try:
        requests = TrackerRequests.read(bytes(message[: len(message) - cut]))
    except InvalidUpdateError:
        return
    assert all(
        column.dtype == expected.dtype for column, expected in zip(requests, TrackerRequests.of([]), strict=True)
    )
    assert (requests.roots != np.uint64(NO_ROOT)).all() and ((requests.attempts >= 1) & (requests.attempts <= 63)).all()
