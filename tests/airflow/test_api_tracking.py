"""Records over HTTP: what a job reports of those in flight and of those that it gave up, and what one changes."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest.mock import Mock

import pytest

from springline.airflow.api import PREFIX, dead_letters, streams, tracking
from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stamps import MAX_STAGE_UNITS, Stamp
from springline.spark_jobs.streaming.tracking.config import RING
from springline.testing.memory_log import MemoryLog

ROOT = f"{PREFIX}/api/v1/streams"
TRACKING_URL = f"{ROOT}/words/tracking"
DEAD_LETTERS_URL = f"{ROOT}/words/dead-letters"
PLACE = {"topic": b"lines", "partition": b"0", "offset": b"9", "reason": b"poison"}
TICKS = '[ticks]\ntopic = "t"\n[ticks.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"]]\n'
NEVER = '[never]\nkind = "wordcount"\ntopic = "lines"\n'


@pytest.fixture(autouse=True)
def declared(words_job: JobFolder, tmp_path: Path) -> None:
    """Beside `words` there are `ticks`, which is not tracked, and `never`, which was not started."""
    with (tmp_path / "streams.toml").open("a") as file:
        file.write(TICKS + NEVER)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What the API finds instead of Kafka: two partitions of lines, and two dead letters."""
    memory_log = MemoryLog({"lines": 2, "words.dead-letters": 1, "ticks.dead-letters": 1, "t": 1})
    stamps: list[dict[str, bytes]] = [{}, Stamp(1, MAX_STAGE_UNITS, 3, 0).header()]
    for number, (offset, content) in enumerate(((3, b"one"), (650, b"tw\xff"))):
        place = {"topic": b"lines", "partition": b"1", "offset": str(offset).encode(), "reason": b"row 0: sent 5 times"}
        record = OutgoingRecord("words.dead-letters", 0, content, {**place, **stamps[number]})
        memory_log._append(record, timestamp=1_700_000_000.0 + number)
    for content in (b"1,x", b"2,y"):
        place = {"topic": b"t", "partition": b"0", "offset": b"8", "reason": b"row 0: no float"}
        memory_log._append(OutgoingRecord("ticks.dead-letters", 0, content, place), timestamp=1_700_000_000.0)
    monkeypatch.setattr(MemoryLog, "close", lambda self: None, raising=False)
    monkeypatch.setattr(streams, "Kafka", lambda cluster, timeout: memory_log)
    return memory_log


def test_records_in_flight_completed_and_abandoned_are_counted(vera, words_job):
    """By the last heartbeat, with the state of the job; a time that is not known is null."""
    with words_job.application_lock():
        body = vera.get(TRACKING_URL).json()
    assert body == {**words_job.heartbeat()["tracking"], "state": "running"}
    assert (body["in_flight"], body["seconds"]) == (50, {"p50": 0.091, "p90": 0.1, "p99": None})
    assert vera.get(TRACKING_URL).json()["state"] == "dead"


def test_whether_a_range_is_complete_is_answered_with_what_is_missing(vera, log):
    """Up to the marks everything is; without offsets, all that is in the topic now is asked for."""
    for to, is_complete, missing in (((700, 10), True, {}), ((750, 800), False, {"0": 50})):
        body = vera.get(f"{TRACKING_URL}/completion", params={"to": [f"0:{to[0]}", f"1:{to[1]}"]}).json()
        assert body == {
            "is_complete": is_complete, "missing": missing, "target_offsets": {"0": to[0], "1": to[1]},
            "low_watermarks": {"0": 700, "1": 800},
        }  # fmt: skip
    assert vera.get(f"{TRACKING_URL}/completion").json()["target_offsets"] == {"0": 0, "1": 0}
    for _ in range(600):
        log.put("lines", 0, b"a line")
    body = vera.get(f"{TRACKING_URL}/completion").json()
    high = log.offset_bounds("lines")[0].high
    assert (body["target_offsets"], body["missing"]) == ({"0": high, "1": 0}, {"0": high - 700})


def test_ackers_are_added_and_removed_and_the_user_is_logged(ulla, vera, words_job, caplog):
    """Each change is an epoch of the ring, which shows every acker that there can be, with what it has reported."""
    body = vera.get(f"{TRACKING_URL}/ackers").json()
    assert (body["epoch"], body["max_ackers"]) == (1, 4)
    rows = [(each["in_ring"], each["in_flight"], each["completed"]) for each in body["ackers"]]
    assert rows == [(True, 50, 56_789), (True, None, None), (False, None, None), (False, None, None)]
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        added, removed = ulla.put(f"{TRACKING_URL}/ackers/2"), ulla.delete(f"{TRACKING_URL}/ackers/0")
    assert (added.status_code, added.json()["epoch"]) == (201, 2)
    assert (removed.status_code, removed.json()["epoch"]) == (200, 3)
    assert [each["acker"] for each in removed.json()["ackers"] if each["in_ring"]] == [1, 2]
    assert read_json(words_job.path / RING)["epochs"] == {"1": [0, 1], "2": [0, 1, 2], "3": [1, 2]}
    assert [record.getMessage() for record in caplog.records if record.name == tracking.__name__] == [
        "words: ulla has added acker 2 to the ring; epoch 2",
        "words: ulla has removed acker 0 from the ring; epoch 3",
    ]


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "error", "expected_message"),
    [
        ("GET", "ticks/tracking", None, 404, "UnknownJobError", "ticks: its records are not tracked"),
        ("GET", "ticks/tracking/completion?to=0:1", None, 404, "UnknownJobError", "not tracked"),
        ("PUT", "ticks/tracking/ackers/2", None, 404, "UnknownJobError", "not tracked"),
        ("GET", "other/tracking", None, 404, "UnknownJobError", "no job 'other'"),
        ("GET", "never/tracking", None, 409, "NotTrackedError", "never: it has not tracked any record yet"),
        ("GET", "never/tracking/completion?to=0:1", None, 409, "NotTrackedError", "start it first"),
        ("PUT", "words/tracking/ackers/1", None, 409, "InvalidRingError", "acker 1 is already in the ring"),
        ("PUT", "words/tracking/ackers/4", None, 409, "InvalidRingError", "expected 0 to 3"),
        ("DELETE", "words/tracking/ackers/3", None, 409, "InvalidRingError", "acker 3 is not in the ring"),
        ("PUT", "words/tracking/ackers/-1", None, 422, "BadRequestError", "path.acker"),
        ("GET", "words/tracking/completion?to=0", None, 422, "BadRequestError", "query.to.0"),
        ("GET", "words/dead-letters?limit=0", None, 422, "BadRequestError", "query.limit"),
        ("POST", "words/dead-letters/retry", ["0:77"], 404, "UnknownFailureError", "no dead letter 0:77"),
        ("POST", "words/dead-letters/retry", ["0:2", "5:0"], 404, "UnknownFailureError", "no dead letter 5:0"),
        ("POST", "words/dead-letters/retry", ["x"], 422, "BadRequestError", "body.records.0"),
        ("POST", "words/dead-letters/retry", [], 422, "BadRequestError", "body.records"),
    ],
)
def test_an_error_says_what_is_wrong(ulla, log, words_job, method, path, sent, status, error, expected_message):
    """In the shape of all errors; the ring stays as it is, and no dead letter is sent, nor any asked for with it."""
    answer = ulla.request(method, f"{ROOT}/{path}", json=None if sent is None else {"records": sent})
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert expected_message in answer.json()["detail"]
    assert not (words_job.path / RING).exists() and log.topics["lines"] == [[], []]


@pytest.mark.parametrize(("error", "status"), [(UnknownTopicError, 404), (LogUnavailableError, 503)])
def test_a_missing_topic_and_an_unreachable_kafka_have_different_errors(vera, log, monkeypatch, error, status):
    """Where the topic ends; a job that never ran has no dead letters, since its first start creates their topic."""
    monkeypatch.setattr(log, "offset_bounds", offset_bounds := Mock(side_effect=error("no")))
    answer = vera.get(f"{TRACKING_URL}/completion")
    assert (answer.status_code, answer.json()["detail"]) == (status, "no")
    offset_bounds.assert_called_with("lines")
    unavailable = {"error": "LogUnavailableError", "detail": "no", "line": None, "column": None}
    expected = (200, {"dead_letters": [], "matching": 0}) if error is UnknownTopicError else (503, unavailable)
    answer = vera.get(DEAD_LETTERS_URL)
    assert (answer.status_code, answer.json()) == expected


# ---- dead letters


def test_the_newest_dead_letters_come_last(vera, log):
    """So many as are asked for; bytes that are no text are hexadecimal digits; the stage is that of the header."""
    first, second = vera.get(DEAD_LETTERS_URL).json()["dead_letters"]
    assert (first["stage"], first["offset"], first["content"], first["encoding"]) == ("", 3, "one", "text")
    assert second == {
        "record": "0:2", "stage": "retry", "topic": "lines", "partition": 1, "offset": 650,
        "reason": "row 0: sent 5 times",
        "failed_at": "2023-11-14T22:13:21Z", "content": "74 77 ff", "encoding": "hex", "bytes": 3, "retried_at": None,
        "refusal": "",
    }  # fmt: skip
    assert vera.get(DEAD_LETTERS_URL, params={"limit": 1}).json() == {"dead_letters": [second], "matching": 2}


@pytest.mark.parametrize(
    ("text", "offsets"), [("ONE", [3]), ("1:650", [650]), ("sent 5", [3, 650]), ("ff", [650]), ("nothing", [])]
)
def test_dead_letters_are_searched_by_content_position_and_reason(vera, log, text, offsets):
    """Case does not count."""
    body = vera.get(DEAD_LETTERS_URL, params={"contains": text}).json()
    assert ([each["offset"] for each in body["dead_letters"]], body["matching"]) == (offsets, len(offsets))


def test_a_long_record_is_cut_and_its_size_is_reported(vera, log):
    """Also in the middle of a character."""
    for number, content in enumerate(("ä" * 8_000, "a" + "ä" * 8_000)):
        log._append(OutgoingRecord("words.dead-letters", 0, content.encode(), PLACE), timestamp=1.8e9 + number)
    even, odd = vera.get(DEAD_LETTERS_URL).json()["dead_letters"][-2:]
    assert (even["content"], even["bytes"]) == ("ä" * 5_000, 16_000)
    assert (odd["content"], odd["encoding"]) == ("a" + "ä" * 4_999, "text")


def test_a_retry_is_tried_dry_and_done_once_and_the_user_is_logged(ulla, vera, log, caplog):
    """By those who may change the job; to the partition that it came from, byte by byte."""
    records = [each["record"] for each in ulla.get(DEAD_LETTERS_URL).json()["dead_letters"]]
    place, last = f"{DEAD_LETTERS_URL}/retry", records[-1]
    assert vera.post(place, json={"records": records}).status_code == 403
    dry = ulla.post(place, json={"records": [last], "dry_run": True}).json()
    assert (dry["allowed"], dry["executed"], dry["retried"]) == (True, False, [last])
    assert "The record at offset 650 of partition 1 is appended" in dry["message"]
    assert log.topics["lines"] == [[], []]
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        body = ulla.post(place, json={"records": [last]}).json()
    assert body["executed"] and [bytes(message.value) for message in log.topics["lines"][1]] == [b"tw\xff"]
    assert ulla.get(DEAD_LETTERS_URL).json()["dead_letters"][-1]["refusal"] == "it was already retried"
    assert [record.getMessage() for record in caplog.records if record.name == dead_letters.__name__] == [
        f"words: ulla has retried the dead letters {last}"
    ]
    retried = ulla.post(place, json={"records": records}).json()
    assert (retried["retried"], retried["refused"]) == ([records[0]], {last: "it was already retried"})
    assert "1 are not retried: it was already retried" in retried["message"]
    assert len(log.topics["lines"][1]) == 2


def test_records_of_a_job_that_is_not_tracked_are_retried_too(ulla, log):
    """All that are shown, in one request."""
    dead_letters = ulla.get(f"{ROOT}/ticks/dead-letters").json()["dead_letters"]
    records = [each["record"] for each in dead_letters]
    body = ulla.post(f"{ROOT}/ticks/dead-letters/retry", json={"records": records}).json()
    assert body["retried"] == records and "2 records are appended to t" in body["message"]
    assert [bytes(message.value) for message in log.topics["t"][0]] == [b"1,x", b"2,y"]
