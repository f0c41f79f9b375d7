"""Records that failed are sent again when a person asks for it: each once, to where it came from."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import ANY

import pytest

from springline.spark_jobs.streaming.commands import tracking
from springline.spark_jobs.streaming.errors import LogUnavailableError, RecordRefusedError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.encoding import encode_dead_letters
from springline.spark_jobs.streaming.runtime.message import Message, header_pairs
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import HEADER, Stamp
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Output, State
from springline.spark_jobs.streaming.tracking.errors import RetryRefusedError, UnknownFailureError
from springline.spark_jobs.streaming.tracking.replay.failures import newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import (
    refusal_reason,
    replay_times,
    retry_dead_letter,
    retry_dead_letters,
)
from springline.testing.job_run import JobRun
from springline.testing.memory_log import MemoryLog
from tests.support.commands import invoke
from tests.support.streams.declarations import written

DECLARED = '[words]\nkind = "wordcount"\ntopic = "lines"\n[orders]\nkind = "tracker"\n'


class TrackedWords:
    """The job `words` over two partitions; three of its records failed, of the last one the content is gone."""

    def __init__(self, home: Path) -> None:
        self.file = written(home, DECLARED)
        self.job = read_tracked_job(self.file, "words")
        self.folder = JobFolder(home / "streams" / "words")
        self.log = MemoryLog({"lines": 2, "words.dead-letters": 2})
        for unit, partition, content in ((0, b"1", b"to be"), (0, b"7", b"or not"), (1, b"0", b"")):
            place = {"topic": b"lines", "partition": partition, "offset": b"3", "reason": b"row 0: sent 5 times"}
            note = {} if content else {"content": b"missing"}
            self.log._append(OutgoingRecord("words.dead-letters", unit, content, {**place, **note}))

    def failed_records(self) -> list[str]:
        """The places of what failed."""
        return sorted(each.record for each in newest_failures(self.log, "words.dead-letters", 10))

    def send(self, letter: str) -> None:
        retry_dead_letter(self.log, self.job, self.folder, letter, 5.0)

    def sent_values(self) -> list[list[bytes]]:
        """What was sent to each partition."""
        return [[bytes(message.value) for message in unit] for unit in self.log.topics["lines"]]


@pytest.fixture
def tracked_words(tmp_path: Path) -> TrackedWords:
    """Nothing was sent again yet."""
    return TrackedWords(tmp_path)


def test_a_record_goes_to_the_end_of_the_partition_that_it_came_from_once(tracked_words: TrackedWords) -> None:
    """That it was sent is noted by its place among the dead letters."""
    first, *_ = tracked_words.failed_records()
    tracked_words.send(first)
    assert tracked_words.sent_values() == [[], [b"to be"]] and replay_times(tracked_words.folder) == {first: 5.0}
    with pytest.raises(RetryRefusedError, match=rf"words, dead letter {first}: not retried: it was already retried"):
        tracked_words.send(first)
    assert tracked_words.sent_values() == [[], [b"to be"]]


def test_what_cannot_be_sent_is_refused_with_the_reason(tracked_words: TrackedWords) -> None:
    """And nothing is noted."""
    _, other_partition, empty = tracked_words.failed_records()
    for letter, reason in ((other_partition, "lines has no partition 7"), (empty, "its content was no longer")):
        with pytest.raises(RetryRefusedError, match=f"letter {letter}: not retried: {reason}"):
            tracked_words.send(letter)
    foreign = read_tracked_job(tracked_words.file, "orders")
    failure = newest_failures(tracked_words.log, "words.dead-letters", 1)[0]
    assert "clients of a tracker retry their roots" in refusal_reason(foreign, failure, {})
    assert tracked_words.sent_values() == [[], []] and replay_times(tracked_words.folder) == {}


def test_a_retried_message_is_the_one_that_failed(tmp_path: Path) -> None:
    """With its key, its headers in their order, also equal ones and those without a value, its time, and no value."""
    run = JobRun.from_declaration(written(tmp_path, DECLARED), "words", tmp_path)
    folder, odd = JobFolder(tmp_path / "retries"), b"\xff\n"
    stamp = (HEADER, Stamp(1, 0, 1, 0).encode())  # of another job's result
    headers = (("trace", b"\x00\xfe"), ("topic", b"mine"), ("trace", None), ("trace", b""))
    run.log.put("lines", 0, odd, 1_699_999_999.123, key=b"\x80k", headers=[*headers[:2], stamp, *headers[2:]])
    run.log.put("lines", 0, b"\xff" + b"x" * (16 << 20), key=b"large")
    run.log.put("lines", 0, odd, headers=[("large", b"y" * (16 << 20))])
    run.log.put("lines", 0, odd)
    run.drain()
    failures = newest_failures(run.log, "words.dead-letters", 10)
    retries = [retry_dead_letters(run.log, run.job, folder, [each.record], 5.0)[0] for each in failures]
    sent = run.log.topics["lines"][0][4:]
    assert [(message.value, message.key, header_pairs(message.headers), message.timestamp) for message in sent] == [
        (odd, b"\x80k", headers, 1_699_999_999.123), (odd, None, (), 1.0)
    ]  # fmt: skip
    assert [each.refusal[:66] for each in retries if each.refusal] == [
        "it is too large for the dead-letter queue, where it is cut from 16",
        "it is too large for the dead-letter queue, where it is cut from 2 ",
    ]
    assert failures[0].as_json()["key"] == "\\x80k" and failures[0].as_json()["headers"][2] == (HEADER, ANY)


def test_a_message_without_a_value_is_retried_without_one(
    tracked_words: TrackedWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It deletes a key of a compacted topic; a record without a key, which that does not take, stops no other one."""
    log, dead = tracked_words.log, "words.dead-letters"
    log.topics[dead][0].clear()
    stage = Stage("split", "", "lines", job="words", dead_letters=dead)
    lines = [Message(at, b"", 7.0, {}, key, is_null=True) for at, key in enumerate((None, b"key"))]
    output = Output(State(), dead_letters=[DeadLetter.of(line, "why") for line in lines])
    for record in encode_dead_letters(stage, 0, (1, 1), output):
        log.send(record)
    send = log.send

    def send_to_compacted(record: OutgoingRecord) -> None:
        if record.key is None:
            raise RecordRefusedError("lines[0]: it has no key")
        send(record)

    monkeypatch.setattr(log, "send", send_to_compacted)
    failures = [f"0:{message.offset}" for message in log.topics[dead][0]]
    retries = retry_dead_letters(log, tracked_words.job, tracked_words.folder, failures, 5.0)
    assert [each.refusal for each in retries] == ["lines[0]: it has no key", ""]
    (message,) = log.topics["lines"][0]
    assert (message.is_null, message.value, message.key, message.timestamp) == (True, b"", b"key", 7.0)
    assert list(replay_times(tracked_words.folder)) == failures[1:]


@pytest.mark.parametrize("letter", ["0:1", "0:99", "9:0", "-1:0", "zero", "0:0:0", ""])
def test_a_place_without_a_letter_is_an_error(tracked_words: TrackedWords, letter: str) -> None:
    """A gap, behind the end, of no unit, or no place at all."""
    assert letter not in tracked_words.failed_records()
    with pytest.raises(UnknownFailureError, match=r"words\.dead-letters: there is no dead letter"):
        tracked_words.send(letter)


def test_what_did_not_arrive_is_not_noted(tracked_words: TrackedWords, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be sent once Kafka answers."""

    def failing_send(letter: OutgoingRecord) -> None:
        raise LogUnavailableError("away")

    with monkeypatch.context() as patch, pytest.raises(LogUnavailableError):
        patch.setattr(tracked_words.log, "send", failing_send)
        tracked_words.send(tracked_words.failed_records()[0])
    assert replay_times(tracked_words.folder) == {}
    tracked_words.send(tracked_words.failed_records()[0])


def test_the_command_sends_what_the_list_names(tracked_words: TrackedWords, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the list shows then that it was sent."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tracked_words.folder.path.parents[1]))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tracked_words.file))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(MemoryLog, "close", lambda self: None, raising=False)
    monkeypatch.setattr(tracking, "opened_log", lambda: nullcontext(tracked_words.log))
    first, *_ = tracked_words.failed_records()
    result = invoke("stream", "retry", "words", first)
    assert result.exit_code == 0, result.output
    assert result.output == "words: partition 1, offset 3 retried: sent to lines\n"
    lines = invoke("stream", "dead-letters", "words").output.splitlines()
    (line,) = (line for line in lines if line.split()[:1] == [first])
    assert "to be" in line and line.count(":") > 4  # its place, and two times
    assert f'"record": "{first}"' in invoke("stream", "dead-letters", "words", "--json").output
