"""What cannot be used becomes a dead letter with its reason, and the rest goes on."""

import json

import pyarrow as pa
import pytest

from tests.support.windows_job import Job, csv, ipc, registry, stream

T = 1_700_000_040
COUNT = {"q": "SELECT sip, count(*) AS n, sum(bytes) AS b, sum(load) AS l FROM S GROUP BY sip WINDOWING 60 s"}
GOOD = (T, "x", "a", 1, 0.5)


def run(*messages: bytes, timestamp: float = 0.0, **settings: object) -> Job:
    """One round of those messages."""
    job = Job(registry(COUNT, stream(**settings)))
    job.round(messages, timestamp=timestamp)
    job.finish()
    return job


def counted(job: Job) -> int:
    return sum(row["n"] for row in job.rows("q"))


def reasons(job: Job) -> list[tuple[int, str]]:
    return [(letter.offset, letter.reason) for letter in job.dead]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\x93\xff\x00binary", "not CSV: byte 0 is not UTF-8"),
        (b"a\0b\n", "not CSV: it holds a byte 0"),
        (b'1700000040,"x,a,1,1\n', "not CSV: a quote is never closed"),
        (b"no rows at all", "row 1: 1 fields instead of 5"),
        (csv((T, "x", "a", 1)), "row 1: 4 fields instead of 5"),
        (csv((*GOOD, 7)), "row 1: 6 fields instead of 5"),
        (csv((T, "x", "a", "1.5", 1)), "row 1: bytes is no int"),
        (csv((T, "x", "a", "9" * 19, 1)), "row 1: bytes is no int"),
        (csv((T, "x", "a", "-", 1)), "row 1: bytes is no int"),
        (csv((T, "x", "a", 1, "1.5.2")), "row 1: load is no float"),
        (csv((T, "x", "a", 1, "1_0")), "row 1: load is no float"),
        (csv((T, "x", "a", 1, "")), None),
        (csv(("", "x", "a", 1, 1)), "row 1: time is no time in the unit s"),
        (csv(("soon", "x", "a", 1, 1)), "row 1: time is no float"),
        (csv((0, "x", "a", 1, 1)), "row 1: time is outside 2000-01-01T00:00:00 to 2100-01-01T00:00:00"),
        (csv((253_370_764_800, "x", "a", 1, 1)), "row 1: time is outside 2000-01-01T00:00:00 to 2100-01-01T00:00:00"),
        (csv(("1e300", "x", "a", 1, 1)), "row 1: time is no time in the unit s"),
    ],
)  # fmt: skip
def test_a_bad_csv_message_is_a_dead_letter_and_its_neighbours_count(bad: bytes, reason: str | None) -> None:
    """The letter holds the bytes as they came."""
    job = run(csv(GOOD), bad, csv(GOOD, GOOD))
    assert counted(job) == 3 + (reason is None)
    assert reasons(job) == ([(1, reason)] if reason else [])
    assert [letter.value.rstrip(b"\n") for letter in job.dead] == ([bad.rstrip(b"\n")] if reason else [])
    assert job.counts["dead"] == len(job.dead)


def test_bad_rows_of_a_message_are_told_once_for_each_reason() -> None:
    """With their number, the first of them, and all their bytes."""
    job = run(csv(GOOD, (1, 2), GOOD, (T, "x", "a", "q", 1), (1, 2), (3, 4)), csv((1, 2)))
    assert counted(job) == 2
    assert reasons(job) == [
        (0, "3 rows, the first is row 2: 2 fields instead of 5"),
        (1, "row 1: 2 fields instead of 5"),
        (0, "row 4: bytes is no int"),
    ]
    assert job.dead[0].value == b"1,2\n1,2\n3,4\n"


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
    texts = [
        "0.1",
        "123456789.123456789",
        "1234567890123456789.5",
        "1e22",
        "-1.7976931348623157e308",
        "NaN",
        "1.",
        "007",
    ]
    for text in texts:
        job = run(csv((T, "x", "a", 123456789012345678, text)))
        (row,) = job.rows("q")
        assert row["b"] == 123456789012345678
        assert row["l"] == (None if text == "NaN" else float(text)), text


def test_a_time_far_ahead_of_its_message_is_refused_if_the_stream_says_so() -> None:
    """One clock that is wrong would close every window."""
    job = run(csv(GOOD, (T + 61, "x", "a", 1, 1)), timestamp=T, ahead=60.0)
    assert counted(job) == 1
    assert reasons(job) == [(0, "row 2: time is more than 60 s after the message was appended")]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("2023-11-14 22:14:00", True), ("2023-11-14T22:14:00.5Z", True), ("2023-11-14 22:14", True),
        ("2023-11-14", True), ("2023-11-14 22:14:00.123456", True), ("2024-02-29 00:00:00", True),
        ("2023-02-29 00:00:00", False), ("2023-13-01", False), ("2023-11-14 25:00", False), ("20231114", False),
        ("2023-11-14 22:14:00+01:00", False), ("2023-11-14 22:14:0x", False), ("", False), ("14.11.2023 00", False),
    ],
)  # fmt: skip
def test_times_may_be_text(text: str, fits: bool) -> None:
    """ISO, in UTC."""
    fields = tuple(f if f.name != "time" else type(f)("time", "text") for f in stream().fields)
    job = run(csv((text, "x", "a", 1, 1)), fields=fields, unit="iso")
    assert counted(job) == fits
    assert reasons(job) == ([] if fits else [(0, "row 1: time is no time in the unit iso")])


def batch(**columns: pa.Array) -> pa.RecordBatch:
    plain = {"time": pa.array([float(T)]), "sip": pa.array(["x"]), "bytes": pa.array([1]), "load": pa.array([0.5])}
    kept = {name: array for name, array in {**plain, **columns}.items() if array is not None}
    return pa.RecordBatch.from_pydict(kept)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"not arrow", "not an Arrow stream"),
        (ipc(batch())[:-60], "not an Arrow stream"),
        (ipc(batch(bytes=None)), "column bytes is missing, or there twice; there are time, sip, load"),
        (ipc(batch(bytes=pa.array(["1"]))), "column bytes is string, and int was declared"),
        (ipc(batch(bytes=pa.array([1.5]))), "column bytes is double, and int was declared"),
        (ipc(batch(bytes=pa.array([2**63], pa.uint64()))), "Integer value 9223372036854775808"),
        (ipc(batch(sip=pa.array([1]))), "column sip is int64, and text was declared"),
        (ipc(batch(time=pa.array([None], pa.float64()))), "row 1: time is no time in the unit s"),
        (ipc(batch(time=pa.array([1.0]))), "row 1: time is outside"),
    ],
)
def test_a_bad_arrow_message_is_a_dead_letter_and_its_neighbours_count(bad: bytes, reason: str) -> None:
    """Also where the schema has changed."""
    job = run(ipc(batch()), bad, ipc(batch()), form="arrow")
    assert counted(job) == 2
    ((offset, told),) = reasons(job)
    assert (offset, told[: len(reason)]) == (1, reason)


def test_arrow_columns_may_come_in_types_that_fit_and_in_any_order() -> None:
    """Narrower numbers, dictionaries, large strings, timestamps, nulls, more columns; types change between messages."""
    job = run(
        ipc(batch()),
        ipc(batch(sip=pa.array(["x", None], pa.large_string()).slice(0, 1), bytes=pa.array([2], pa.int8()))),
        ipc(batch(sip=pa.array(["y", "x"]).dictionary_encode().slice(1), extra=pa.array([True]))),
        ipc(batch(sip=pa.array([None], pa.string()), load=pa.array([1], pa.int32()))),
        ipc(batch(time=pa.array([T * 1000], pa.timestamp("ms")), load=pa.array([None], pa.float32()))),
        form="arrow",
    )
    assert sorted(map(repr, ((r["sip"], r["n"], r["b"], r["l"]) for r in job.rows("q")))) == sorted(
        map(repr, [("x", 4, 5, 1.5), (None, 1, 1, 1.0)])
    )
    assert not job.dead


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "row 1: not a JSON object"),
        (b"[1]", "row 1: not a JSON object"),
        (json.dumps({"time": T, "sip": 5}).encode(), "row 1: sip is no text"),
        (json.dumps({"time": T, "bytes": 1.5}).encode(), "row 1: bytes is no int"),
        (json.dumps({"time": T, "bytes": True}).encode(), "row 1: bytes is no int"),
        (json.dumps({"time": T, "bytes": 2**63}).encode(), "row 1: bytes is no int"),
        (json.dumps({"sip": "x"}).encode(), "row 1: time is no time in the unit s"),
        (json.dumps({"time": 5.0}).encode(), "row 1: time is outside"),
    ],
)
def test_a_bad_json_record_is_a_dead_letter_and_its_neighbours_count(bad: bytes, reason: str) -> None:
    """One record a message, or many lines."""
    good = json.dumps({"time": float(T), "sip": "x", "bytes": 1, "load": 1, "more": [1]}).encode()
    job = run(good, bad, good + b"\n" + good, form="json")
    assert counted(job) == 3
    ((offset, told),) = reasons(job)
    assert (offset, told[: len(reason)]) == (1, reason)
