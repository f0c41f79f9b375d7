"""Dead letters over HTTP: what is told of records that a job could not use, and how they are sent again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX, dead_letters, streams
from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stamps import MAX_STAGE_UNITS, Stamp
from springline.testing.memory_log import MemoryLog
from tests.support.streams.kept_streams import HOSTILE

ROOT = f"{PREFIX}/api/v1/streams"
LETTERS = f"{ROOT}/words/dead-letters"
TICKS = '[ticks]\ntopic = "t"\n[ticks.stream]\ntime = "t"\nfields = [["t", "float"]]\n'


@pytest.fixture(autouse=True)
def declared(words_job: JobFolder, tmp_path: Path) -> None:
    """Beside `words` there is `ticks`, which is not tracked."""
    with (tmp_path / "streams.toml").open("a") as file:
        file.write(TICKS)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What the API finds instead of Kafka: two partitions of lines, and two dead letters."""
    memory_log = MemoryLog({"lines": 2, "words.dead-letters": 1, "ticks.dead-letters": 1, "t": 1})
    for number, (offset, content) in enumerate(((3, b"one"), (650, b"tw\xff"))):
        place = {"topic": b"lines", "partition": b"1", "offset": str(offset).encode(), "reason": b"row 0: sent 5 times"}
        memory_log._append(OutgoingRecord("words.dead-letters", 0, content, place), timestamp=1_700_000_000.0 + number)
    for content in (b"1,x", b"2,y"):
        place = {"topic": b"t", "partition": b"0", "offset": b"8", "reason": b"row 0: no float"}
        memory_log._append(OutgoingRecord("ticks.dead-letters", 0, content, place), timestamp=1_700_000_000.0)
    monkeypatch.setattr(MemoryLog, "close", lambda self: None, raising=False)
    monkeypatch.setattr(streams, "Kafka", lambda cluster, timeout: memory_log)
    return memory_log


def test_the_newest_dead_letters_come_last(vera: TestClient, log: MemoryLog) -> None:
    """So many as are asked for; bytes that are no text are shown as hexadecimal digits."""
    first, second = vera.get(LETTERS).json()["dead_letters"]
    assert (first["offset"], first["content"], first["encoding"]) == (3, "one", "text")
    assert second == {
        "record": "0:2", "stage": "", "topic": "lines", "partition": 1, "offset": 650, "reason": "row 0: sent 5 times",
        "failed_at": "2023-11-14T22:13:21Z", "content": "74 77 ff", "encoding": "hex", "bytes": 3, "retried_at": None,
        "refusal": "",
    }  # fmt: skip
    assert vera.get(LETTERS, params={"limit": 1}).json() == {"dead_letters": [second], "matching": 2}


def test_the_stage_that_failed_on_a_record_is_named(vera: TestClient, log: MemoryLog) -> None:
    """By the stamp of the dead letter."""
    place = {"topic": b"lines", "partition": b"0", "offset": b"9", "reason": b"poison",
             **Stamp(1, MAX_STAGE_UNITS, 3, 0).header()}  # fmt: skip
    log._append(OutgoingRecord("words.dead-letters", 0, b"x", place), timestamp=1_800_000_000.0)
    newest = vera.get(LETTERS).json()["dead_letters"][-1]
    assert newest["stage"] == "retry" and newest["reason"] == "poison"


@pytest.mark.parametrize(
    ("text", "offsets"), [("ONE", [3]), ("1:650", [650]), ("sent 5", [3, 650]), ("ff", [650]), ("nothing", [])]
)
def test_dead_letters_are_searched_by_content_position_and_reason(
    vera: TestClient, log: MemoryLog, text: str, offsets: list[int]
) -> None:
    """Case does not count."""
    body = vera.get(LETTERS, params={"contains": text}).json()
    assert ([each["offset"] for each in body["dead_letters"]], body["matching"]) == (offsets, len(offsets))


def test_a_long_record_is_cut_and_its_size_is_told(vera: TestClient, log: MemoryLog) -> None:
    """Also in the middle of a character."""
    place = {"topic": b"lines", "partition": b"0", "offset": b"9", "reason": b"x"}
    log._append(OutgoingRecord("words.dead-letters", 0, "ä".encode() * 8_000 + b"", place), timestamp=1.8e9)
    log._append(OutgoingRecord("words.dead-letters", 0, b"a" + "ä".encode() * 8_000, place), timestamp=1.9e9)
    even, odd = vera.get(LETTERS).json()["dead_letters"][-2:]
    assert (even["content"], even["bytes"]) == ("ä" * 5_000, 16_000)
    assert (odd["content"], odd["encoding"]) == ("a" + "ä" * 4_999, "text")


def test_a_retry_is_tried_dry_and_done_once_and_the_log_tells_by_whom(
    ulla: TestClient, vera: TestClient, log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """By those who may change the job; to the partition that it came from, byte by byte."""
    records = [each["record"] for each in ulla.get(LETTERS).json()["dead_letters"]]
    place, last = f"{LETTERS}/retry", records[-1]
    assert vera.post(place, json={"records": records}).status_code == 403
    dry = ulla.post(place, json={"records": [last], "dry_run": True}).json()
    assert (dry["allowed"], dry["executed"], dry["retried"]) == (True, False, [last])
    assert "The record at offset 650 of partition 1 is appended" in dry["message"]
    assert log.topics["lines"] == [[], []]
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        body = ulla.post(place, json={"records": [last]}).json()
    assert body["executed"] and [bytes(message.value) for message in log.topics["lines"][1]] == [b"tw\xff"]
    assert ulla.get(LETTERS).json()["dead_letters"][-1]["refusal"] == "it was already retried"
    assert [record.getMessage() for record in caplog.records if record.name == dead_letters.__name__] == [
        f"words: ulla has retried the dead letters {last}"
    ]
    again = ulla.post(place, json={"records": records}).json()
    assert (again["retried"], again["refused"]) == ([records[0]], {last: "it was already retried"})
    assert "1 are not retried: it was already retried" in again["message"]
    assert len(log.topics["lines"][1]) == 2


def test_records_of_a_job_that_is_not_tracked_are_retried_too(ulla: TestClient, log: MemoryLog) -> None:
    """All that are shown, in one request."""
    letters = ulla.get(f"{ROOT}/ticks/dead-letters").json()["dead_letters"]
    records = [each["record"] for each in letters]
    body = ulla.post(f"{ROOT}/ticks/dead-letters/retry", json={"records": records}).json()
    assert body["retried"] == records and "2 records are appended to t" in body["message"]
    assert [bytes(message.value) for message in log.topics["t"][0]] == [b"1,x", b"2,y"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_of_another_site_could_send_sends_nothing(ulla: TestClient, log: MemoryLog, kind: str) -> None:
    """The browser would send the login along; JSON it sends to its own site alone."""
    headers = {"Content-Type": kind} if kind else {}
    answer = ulla.post(f"{LETTERS}/retry", content=b'{"records": ["0:2"]}' if kind else b"", headers=headers)
    assert answer.status_code == 422 and log.topics["lines"] == [[], []]


def test_a_letter_that_is_not_there_is_not_sent(ulla: TestClient, log: MemoryLog) -> None:
    """Nor is what is no place, nor anything that is asked for together with it."""
    for records, status, error in (
        (["0:77"], 404, "UnknownFailureError"),
        (["0:2", "5:0"], 404, "UnknownFailureError"),
        (["x"], 422, "BadRequestError"),
        ([], 422, "BadRequestError"),
    ):
        answer = ulla.post(f"{LETTERS}/retry", json={"records": records})
        assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert log.topics["lines"] == [[], []]
    assert ulla.get(LETTERS, params={"limit": 0}).status_code == 422


def test_what_a_record_holds_is_no_page_whatever_it_says(vera: TestClient, log: MemoryLog) -> None:
    """It is told as JSON, to the letter."""
    place = {"topic": b"lines", "partition": b"0", "offset": b"9", "reason": HOSTILE.encode()}
    log._append(OutgoingRecord("words.dead-letters", 0, HOSTILE.encode(), place), timestamp=1_800_000_000.0)
    answer = vera.get(LETTERS, params={"limit": 1})
    (letter,) = answer.json()["dead_letters"]
    assert (letter["content"], letter["reason"]) == (HOSTILE, HOSTILE)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (UnknownTopicError, 200, {"dead_letters": [], "matching": 0}),
        (LogUnavailableError, 503, {"error": "LogUnavailableError", "detail": "no", "line": None, "column": None}),
    ],
)
def test_a_job_that_never_ran_has_none_and_a_kafka_that_is_away_is_an_error(
    vera: TestClient, log: MemoryLog, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int, body: object
) -> None:
    """The first start creates the topic."""

    def offset_bounds(topic: str) -> None:
        raise error("no")

    monkeypatch.setattr(log, "offset_bounds", offset_bounds)
    answer = vera.get(LETTERS)
    assert (answer.status_code, answer.json()) == (status, body)
