"""What cannot be used becomes a dead letter with its reason, and the rest goes on."""

import json

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.windows.aggregation.grouping import Grouping
from springline.spark_jobs.streaming.windows.errors import QueryError
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.state import cube_state
from springline.spark_jobs.streaming.windows.state.result_rows import result_batch
from tests.support.decoding.windows_job import Job, csv, ipc, registry, stream

T = 1_700_000_040
COUNT = {"q": "SELECT sip, count(*) AS n, sum(bytes) AS b, sum(load) AS l FROM S GROUP BY sip WINDOWING 60 s"}
GOOD = (T, "x", "a", 1, 0.5)


def run(*messages: bytes, timestamp: float = 0.0, clock: float | None = None, **settings: object) -> Job:
    """One round of those messages."""
    job = Job(registry(COUNT, stream(**settings)))
    job.round(messages, timestamp=timestamp, clock=clock)
    job.finish()
    return job


def counted(job: Job) -> int:
    return sum(row["n"] for row in job.rows("q"))


def reasons(job: Job) -> list[tuple[int, str]]:
    return [(letter.offset, letter.reason) for letter in job.dead]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\x93\xff\x00binary", "row 1: not UTF-8, at byte 0"),
        (b"a\0b\n", "row 1: a byte 0, at byte 1"),
        (b'1700000040,"x,a,1,1\n', "row 1: a quote is not closed, or text follows it in its field"),
        (b"no rows at all", "row 1: 1 fields instead of 5"),
        (csv((T, "x", "a", 1)), "row 1: 4 fields instead of 5"),
        (csv((*GOOD, 7)), "row 1: 6 fields instead of 5"),
        (csv((T, "x", "a", "1.5", 1)), "row 1: bytes is no int: 1.5"),
        (csv((T, "x", "a", "9" * 19, 1)), "row 1: bytes is no int: 9999999999999999999"),
        (csv((T, "x", "a", "-", 1)), "row 1: bytes is no int: -"),
        (csv((T, "x", "a", 1, "1.5.2")), "row 1: load is no float: 1.5.2"),
        (csv((T, "x", "a", 1, "1_0")), "row 1: load is no float: 1_0"),
        (csv((T, "x", "a", 1, "1e999")), "row 1: load is no float: 1e999"),
        (csv(("", "x", "a", 1, 1)), "row 1: time is NULL"),
        (csv(("soon", "x", "a", 1, 1)), "row 1: time is no timestamp(s): soon"),
        (csv((0, "x", "a", 1, 1)), "row 1: time is outside 2000-01-01T00:00:00 to 2100-01-01T00:00:00"),
        (csv((253_370_764_800, "x", "a", 1, 1)), "row 1: time is outside 2000-01-01T00:00:00 to 2100-01-01T00:00:00"),
        (csv(("1e300", "x", "a", 1, 1)), "row 1: time is no timestamp(s): 1e300"),
        (csv(("long" * 100_000, "x", "a", 1, 1)), f"row 1: time is no timestamp(s): {'long' * 15}…"),
    ],
)  # fmt: skip
def test_a_bad_csv_message_is_a_dead_letter_and_its_neighbours_count(bad: bytes, reason: str) -> None:
    """The letter holds the bytes as they came."""
    job = run(csv(GOOD), bad, csv(GOOD, GOOD))
    assert (counted(job), reasons(job)) == (3, [(1, reason)])
    assert [letter.value.rstrip(b"\n") for letter in job.dead] == [bad.rstrip(b"\n")]
    assert job.counts["dead_letters"] == 1


def test_bad_rows_of_a_message_are_one_dead_letter_for_each_reason() -> None:
    """With their number, the first of them, and all their bytes."""
    job = run(csv(GOOD, (1, 2), GOOD, (T, "x", "a", "q", 1), (1, 2), (3, 4)), csv((1, 2)))
    assert counted(job) == 2
    assert reasons(job) == [
        (0, "row 4: bytes is no int: q"),
        (0, "3 rows, the first is row 2: 2 fields instead of 5"),
        (1, "row 1: 2 fields instead of 5"),
    ]
    assert job.dead[1].value == b"1,2\n1,2\n3,4\n"


def test_csv_may_be_quoted_end_in_cr_lf_have_empty_lines_and_no_last_line_end() -> None:
    """As RFC 4180 has it; many records of one message each are read together."""
    rows = [b'1700000040,"x,""y""\nz",a,"1",0.5\r\n', b"\n1700000040,x,a,+2,5e-1", b"1700000040,x,a,-0,.5\n\n"]
    job = run(*rows)
    assert sorted((row["sip"], row["n"], row["b"], row["l"]) for row in job.rows("q")) == [
        ("x", 2, 2, 1.0), ('x,"y"\nz', 1, 1, 0.5),
    ]  # fmt: skip
    assert not job.dead


def test_numbers_of_many_digits_are_read_exactly() -> None:
    """Where the quick way would round, the careful one is taken."""
    texts = "0.1 123456789.123456789 1234567890123456789.5 1e22 -1.7976931348623157e308 NaN 1. 007"
    for text in texts.split():
        job = run(csv((T, "x", "a", 123456789012345678, text)))
        (row,) = job.rows("q")
        assert row["b"] == 123456789012345678
        assert row["l"] == (None if text == "NaN" else float(text)), text


def test_a_time_far_ahead_of_the_rounds_clock_is_refused() -> None:
    """One clock that is wrong would close every window; a message's own time may be of that clock too."""
    job = run(csv(GOOD, (T + 62, "x", "a", 1, 1)), timestamp=T + 62, clock=T, max_future_skew=60.0)
    assert counted(job) == 1
    assert reasons(job) == [(0, "row 2: time is more than 60 s ahead of the clock")]


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("2023-11-14 22:14:00", True), ("2023-11-14T22:14:00.5Z", True), ("2023-11-14 22:14", True),
        ("2023-11-14", True), ("2023-11-14 22:14:00.123456", True), ("2024-02-29 00:00:00", True),
        ("2023-02-29 00:00:00", False), ("2023-13-01", False), ("2023-11-14 25:00", False), ("20231114", False),
        ("2023-11-14 22:14+01:00", True), ("2023-11-14 22:14:0x", False), ("", False), ("14.11.2023 00", False),
        ("2023-11-14 22:14:00+24:00", False), ("2023-11-14 22:14:00+01:60", False), ("2023-11-14 22:14:00+1", False),
        ("2023-11-14 22:14:00+01:00Z", False), ("2023-11-14 22:14:00.", False), ("2023-11-14+01:00", False),
        ("2023-11-14 22:14:00.1234567890", False), ("2023-11-14 22:14:00+01:0", False), ("2023-11-14 22:14 Z", False),
    ],
)  # fmt: skip
def test_times_may_be_text(text: str, is_valid: bool) -> None:
    """ISO, in UTC or with an offset."""
    fields = tuple(f if f.name != "time" else type(f)("time", "timestamp") for f in stream().fields)
    job = run(csv((text, "x", "a", 1, 1)), fields=fields)
    assert counted(job) == is_valid
    assert reasons(job) == (
        [] if is_valid else [(0, f"row 1: time is no timestamp: {text}" if text else "row 1: time is NULL")]
    )


def batch(**columns: pa.Array) -> pa.RecordBatch:
    plain = {"time": pa.array([float(T)]), "sip": pa.array(["x"]), "bytes": pa.array([1]), "load": pa.array([0.5])}
    arrays = {name: array for name, array in {**plain, **columns}.items() if array is not None}
    return pa.RecordBatch.from_pydict(arrays)


def of_buffers(kind: pa.DataType, *buffers: bytes) -> pa.Array:
    """One value, whose bytes were not checked."""
    return pa.Array.from_buffers(kind, 1, [None, *map(pa.py_buffer, buffers)])


ODD_TEXT = of_buffers(pa.string(), b"\0\0\0\0\2\0\0\0", b"\xff\xfe")
ODD_INDEX = pa.DictionaryArray.from_arrays(of_buffers(pa.int8(), b"\x09"), pa.array(["x"]), safe=False)


def ending_beyond(name: str, **columns: pa.Array) -> bytes:
    """A message with a text that ends far behind all bytes that there are."""
    value, ends = ipc(batch(**{name: pa.array(["x" * 291]), **columns})), b"\0\0\0\0\x23\1\0\0"
    before, after = value.rsplit(ends, 1)
    return before + b"\0\0\0\0\0\0\0\x7f" + after


BAD = {
    "arrow": [
        (b"not arrow", "not an Arrow stream"),
        (b"", "not an Arrow stream"),
        (ipc(batch(sip=ODD_TEXT)), "column sip: Invalid UTF8"),
        (ending_beyond("sip"), "column sip: Length spanned by"),
        (ipc(batch(sip=ODD_INDEX)), "column sip: Dictionary indices"),
        (ipc(batch(time=None)).replace(b"sip", b"\xff\xfep"), "not an Arrow stream: 'utf-8' codec"),
        (ipc(batch())[:-60], "not an Arrow stream"),
        (ipc(batch(bytes=None)), "column bytes is missing or duplicated; columns: time, sip, load"),
        (ipc(batch(bytes=pa.array(["1"]))), "column bytes is string, but int was declared"),
        (ipc(batch(bytes=pa.array([1.5]))), "column bytes is double, but int was declared"),
        (ipc(batch(bytes=pa.array([2**63], pa.uint64()))), "not as declared: Integer value 9223372036854775808"),
        (ipc(batch(sip=pa.array([1]))), "column sip is int64, but text was declared"),
        (ipc(batch(time=pa.array([None], pa.float64()))), "row 1: time is NULL"),
        (ipc(batch(time=pa.array([1.0]))), "row 1: time is outside"),
    ],
    "json": [
        (b"{", "row 1: not a JSON object"),
        (b"null", "row 1: not a JSON object, at byte 0"),
        (b"[" * 100_000, "row 1: not a JSON object, at byte 0"),
        (b'{"a":' * 100_000, "row 1: not a JSON object of at most 1,000 levels"),
        (b'{"sip":"\\ud800"}', "row 1: half of a surrogate pair, at byte 8"),
        (b'{"sip":"\xff"}', "row 1: not UTF-8, at byte 8"),
        (b'{"sip":"x","sip":"y"}', "row 1: sip is there twice"),
        (b'{"time":1700000040} {"time":1700000040}', "row 1: not a JSON object, at byte 20"),
        (b'{"time":1700000040}null', "row 1: not a JSON object, at byte 19"),
        (b"[1]", "row 1: not a JSON object"),
        (b"\x00\x01", "row 1: a byte 0, at byte 0"),
        (b'{"time":1700000040,"load":1e400}', "row 1: load is no float: 1e400"),
        (b'{"time":1700000040,"bytes":"1"}', 'row 1: bytes is no int: "1"'),
        (json.dumps({"time": T, "sip": 5}).encode(), "row 1: sip is no text: 5"),
        (json.dumps({"time": T, "bytes": 1.5}).encode(), "row 1: bytes is no int: 1.5"),
        (json.dumps({"time": T, "bytes": True}).encode(), "row 1: bytes is no int: true"),
        (json.dumps({"time": T, "bytes": 2**63}).encode(), "row 1: bytes is no int"),
        (json.dumps({"sip": "x"}).encode(), "row 1: time is NULL"),
        (json.dumps({"time": 5.0}).encode(), "row 1: time is outside"),
    ],
}
JSON = json.dumps({"time": float(T), "sip": "x", "bytes": 1, "load": 1, "more": [1]}).encode()
NEIGHBOURS = {"arrow": (ipc(batch()), ipc(batch())), "json": (JSON, JSON + b"\n" + JSON)}


@pytest.mark.parametrize(("form", "bad", "reason"), [(form, *case) for form, cases in BAD.items() for case in cases])
def test_a_bad_message_is_a_dead_letter_and_its_neighbours_count(form: str, bad: bytes, reason: str) -> None:
    """Also where the schema has changed; one JSON record a message, or many lines."""
    before, after = NEIGHBOURS[form]
    job = run(before, bad, after, format=form)
    assert counted(job) == {"arrow": 2, "json": 3}[form]
    ((offset, message),) = reasons(job)
    assert (offset, message[: len(reason)]) == (1, reason)


def test_arrow_columns_may_come_in_types_that_fit_and_in_any_order() -> None:
    """Narrower numbers, dictionaries, large strings, timestamps, nulls, more columns; types change between messages."""
    job = run(
        ipc(batch()),
        ipc(batch(sip=pa.array(["x", None], pa.large_string()).slice(0, 1), bytes=pa.array([2], pa.int8()))),
        ipc(batch(sip=pa.array(["y", "x"]).dictionary_encode().slice(1), extra=pa.array([True]))),
        ipc(batch(sip=pa.array([None], pa.string()), load=pa.array([1], pa.int32()))),
        ipc(batch(time=pa.array([T * 1000], pa.timestamp("ms")), load=pa.array([None], pa.float32()))),
        format="arrow",
    )
    assert sorted(map(repr, ((r["sip"], r["n"], r["b"], r["l"]) for r in job.rows("q")))) == sorted(
        map(repr, [("x", 4, 5, 1.5), (None, 1, 1, 1.0)])
    )
    assert not job.dead


def test_an_unused_arrow_column_may_hold_anything() -> None:
    """A row of such a message that is refused is a dead letter with the message, since no part of it can be written."""
    invalid_message = ending_beyond("other", time=pa.array([1.0]))
    job = run(ending_beyond("other"), invalid_message, format="arrow")
    assert counted(job) == 1
    (letter,) = job.dead
    assert (letter.offset, letter.value) == (1, invalid_message) and letter.reason.startswith("row 1: time is outside")


def test_a_csv_field_of_nothing_is_null_and_two_quotes_are_an_empty_text() -> None:
    """A number in quotes is one, blanks may stand around it, and a delimiter behind the last field."""
    rows = [b'1700000040,x,"",1,', b"1700000040,x,,1,\n", b'1700000040,x,"", 1\t,"0.5",\n', b'"1700000040",x,"a",,\n']
    job = Job(registry({"q": "SELECT kind, count(*) AS n, sum(bytes) AS b FROM S GROUP BY kind WINDOWING 60 s"}))
    job.round(rows)
    job.finish()
    assert sorted(((row["kind"], row["n"], row["b"]) for row in job.rows("q")), key=repr) == [
        ("", 2, 2), ("a", 1, None), (None, 1, 1),
    ]  # fmt: skip
    assert not job.dead


def test_a_quote_within_a_field_is_a_quote_and_one_that_is_not_closed_takes_its_line_alone() -> None:
    """What follows in its message is read, also where a quoted field goes on behind its quote."""
    good, inch = b"1700000040,x,a,1,1\n", b'1700000040,5" or 6",a,1,1\n'
    bad = [b'1700000040,"x,a,1,1\n', b'1700000040,"x"y,a,1,1\n', b'1700000040,x,a,1,"1\n']
    job = run(inch + good.join(bad) + good)
    assert counted(job) == 4
    reason = "3 rows, the first is row 2: a quote is not closed, or text follows it in its field"
    assert reasons(job) == [(0, reason)]
    assert job.dead[0].value == b"".join(bad)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("9223372036854775807", True), ("-9223372036854775808", True), ("9223372036854775808", False),
        ("-9223372036854775809", False), ("+0000000000000000000000000012", True), ("99999999999999999999999", False),
        ("18446744073709551617", False), ("1e3", False), ("+-1", False), ("+", False), ("  ", False), ("1 2", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_whole_number_has_64_bits(form: str, text: str, is_valid: bool) -> None:
    """All of them, and one that is beyond is refused rather than another number."""
    is_valid = is_valid and not (form == "json" and text.startswith("+"))  # which is no number in JSON
    message = csv((T, "x", "a", text, 1)) if form == "csv" else b'{"time":1700000040,"bytes":%s}' % text.encode()
    job = Job(registry({"q": "SELECT max(bytes) AS b FROM S WINDOWING 60 s"}, stream(format=form)))
    job.round([message])
    job.finish()
    assert [row["b"] for row in job.rows("q")] == ([int(text)] if is_valid else [])
    assert len(job.dead) == (not is_valid)


def test_an_error_of_a_query_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or those that share the work; the unit log adds where the rows are."""

    def fail(*_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(Grouping, "add", fail)
    with pytest.raises(QueryError, match=r"^query q: ValueError: no such thing$"):
        run(csv(GOOD))
    job = Job(registry({**COUNT, "r": COUNT["q"]}, stream()))
    with pytest.raises(QueryError, match=r"^one of the queries q, r: ValueError: no such thing$"):
        job.round([csv(GOOD)])


def test_a_group_that_fails_a_query_is_a_dead_letter_and_others_are_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is of no message alone: the letter has the group, its window and the query."""

    def failing_result_batch(
        query: Query, groups: pa.RecordBatch, keys: list[str], begin: int, end: int
    ) -> pa.RecordBatch:
        if "y" in groups.column("k0").to_pylist():
            raise OverflowError("too much")
        return result_batch(query, groups, keys, begin, end)

    monkeypatch.setattr(cube_state, "result_batch", failing_result_batch)
    job = run(csv(GOOD, (T, "y", "a", 1, 1), (T, "y", "b", 1, 1), (T, "z", "a", 1, 1)))
    assert sorted(row["sip"] for row in job.rows("q")) == ["x", "z"]
    (letter,) = job.dead
    assert json.loads(letter.value)["k0"] == "y" and letter.offset == -1 and job.counts["failed"] == 1
    assert letter.reason == (
        "query q: OverflowError: too much; for a group of 2 rows in the window from 2023-11-14T22:14:00+00:00 to "
        "2023-11-14T22:15:00+00:00"
    )
