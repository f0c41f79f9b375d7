"""Tracked jobs over HTTP: what is told of records and of the ring, who changes it, and what is wrong."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX, streams, tracking
from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracking.config import RING
from springline.testing.memory_log import MemoryLog

ROOT = f"{PREFIX}/api/v1/streams"
TRACKING_URL = f"{ROOT}/words/tracking"
TICKS = '[ticks]\ntopic = "t"\n[ticks.stream]\ntime = "t"\nfields = [["t", "float"]]\n'
NEVER = '[never]\nkind = "wordcount"\ntopic = "lines"\n'


@pytest.fixture(autouse=True)
def declared(words_job: JobFolder, tmp_path: Path) -> None:
    """Beside `words` there are `ticks`, which is not tracked, and `never`, which nobody started."""
    with (tmp_path / "streams.toml").open("a") as file:
        file.write(TICKS + NEVER)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What the API finds instead of Kafka: two partitions of lines, and two dead letters."""
    memory_log = MemoryLog({"lines": 2, "words.dead-letters": 1})
    for number, (offset, content) in enumerate(((3, b"one"), (650, b"tw\xff"))):
        place = {"topic": b"lines", "partition": b"1", "offset": str(offset).encode(), "reason": b"row 0: sent 5 times"}
        memory_log._append(OutgoingRecord("words.dead-letters", 0, content, place), timestamp=1_700_000_000.0 + number)
    monkeypatch.setattr(MemoryLog, "close", lambda self: None, raising=False)
    monkeypatch.setattr(streams, "Kafka", lambda cluster, timeout: memory_log)
    return memory_log


def test_what_is_in_flight_completed_and_given_up_is_told(vera: TestClient, words_job: JobFolder) -> None:
    """By the last heartbeat, with the state of the job; a time that is not known is null."""
    with words_job.application_lock():
        body = vera.get(TRACKING_URL).json()
    assert body == {
        "state": "running", "in_flight": 50, "completed": 56_789, "retried": 12, "failed": 3, "bytes": 2_000_000,
        "seconds": {"p50": 0.091, "p90": 0.1, "p99": None}, "low_watermarks": {"0": 700, "1": 800},
        "ackers": [{"acker": 0, "in_flight": 50, "completed": 56_789, "epoch": 1}], "source_paused": False,
        "pause_reason": "",
    }  # fmt: skip
    assert vera.get(TRACKING_URL).json()["state"] == "dead"


def test_whether_a_range_is_through_is_told_with_what_is_missing(vera: TestClient) -> None:
    """Up to the marks everything is."""
    marks = {"0": 700, "1": 800}
    body = vera.get(f"{TRACKING_URL}/completion", params={"to": ["0:700", "1:10"]}).json()
    assert body == {"is_complete": True, "missing": {}, "target_offsets": {"0": 700, "1": 10}, "low_watermarks": marks}
    body = vera.get(f"{TRACKING_URL}/completion", params={"to": ["0:750", "1:800"]}).json()
    assert body == {
        "is_complete": False,
        "missing": {"0": 50},
        "target_offsets": {"0": 750, "1": 800},
        "low_watermarks": marks,
    }


def test_without_offsets_all_that_is_in_the_topic_now_is_asked_for(vera: TestClient, log: MemoryLog) -> None:
    """The end of each partition."""
    assert vera.get(f"{TRACKING_URL}/completion").json()["target_offsets"] == {"0": 0, "1": 0}
    for _ in range(600):
        log.put("lines", 0, b"a line")
    body = vera.get(f"{TRACKING_URL}/completion").json()
    high = log.offset_bounds("lines")[0].high
    assert (body["target_offsets"], body["missing"]) == ({"0": high, "1": 0}, {"0": high - 700})


def test_the_ring_shows_every_acker_that_there_can_be(vera: TestClient) -> None:
    """With what it holds, if it has told that."""
    body = vera.get(f"{TRACKING_URL}/ackers").json()
    assert (body["epoch"], body["max_ackers"]) == (1, 4)
    rows = [(each["in_ring"], each["in_flight"], each["completed"]) for each in body["ackers"]]
    assert rows == [(True, 50, 56_789), (True, None, None), (False, None, None), (False, None, None)]


def test_ackers_are_added_and_removed_and_the_log_tells_by_whom(
    ulla: TestClient, words_job: JobFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """Each change is an epoch of the ring, which the job finds in its folder."""
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


def test_who_may_only_read_does_not_change_the_ring(vera: TestClient, words_job: JobFolder) -> None:
    """And nothing is written."""
    assert (
        vera.put(f"{TRACKING_URL}/ackers/2").status_code == vera.delete(f"{TRACKING_URL}/ackers/0").status_code == 403
    )
    assert not (words_job.path / RING).exists()


@pytest.mark.parametrize(
    ("method", "path", "status", "error", "expected_message"),
    [
        ("GET", "ticks/tracking", 404, "UnknownJobError", "ticks: its records are not tracked"),
        ("GET", "ticks/tracking/completion?to=0:1", 404, "UnknownJobError", "not tracked"),
        ("PUT", "ticks/tracking/ackers/2", 404, "UnknownJobError", "not tracked"),
        ("GET", "other/tracking", 404, "UnknownJobError", "no job 'other'"),
        ("GET", "never/tracking", 409, "NotTrackedError", "never: it has not tracked any record yet"),
        ("GET", "never/tracking/completion?to=0:1", 409, "NotTrackedError", "start it first"),
        ("PUT", "words/tracking/ackers/1", 409, "InvalidRingError", "acker 1 is already in the ring"),
        ("PUT", "words/tracking/ackers/4", 409, "InvalidRingError", "expected 0 to 3"),
        ("DELETE", "words/tracking/ackers/3", 409, "InvalidRingError", "acker 3 is not in the ring"),
        ("PUT", "words/tracking/ackers/-1", 422, "BadRequestError", "path.acker"),
        ("GET", "words/tracking/completion?to=0", 422, "BadRequestError", "query.to.0"),
    ],
)
def test_an_error_says_what_is_wrong(
    ulla: TestClient, words_job: JobFolder, method: str, path: str, status: int, error: str, expected_message: str
) -> None:
    """In the shape of all errors; the ring stays as it is."""
    answer = ulla.request(method, f"{ROOT}/{path}")
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert expected_message in answer.json()["detail"]
    assert not (words_job.path / RING).exists()


@pytest.mark.parametrize(("error", "status"), [(UnknownTopicError, 404), (LogUnavailableError, 503)])
def test_a_topic_that_is_not_there_and_a_kafka_that_is_away_are_told_apart(
    vera: TestClient, log: MemoryLog, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int
) -> None:
    """Where the topic ends."""

    def offset_bounds(topic: str) -> None:
        raise error(f"{topic}: no")

    monkeypatch.setattr(log, "offset_bounds", offset_bounds)
    answer = vera.get(f"{TRACKING_URL}/completion")
    assert (answer.status_code, answer.json()["detail"]) == (status, "lines: no")
