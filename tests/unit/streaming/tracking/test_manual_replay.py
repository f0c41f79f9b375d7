"""Records that failed are sent again when a person asks for it: each once, to where it came from."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.commands import tracking
from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracking.errors import RetryRefusedError, UnknownFailureError
from springline.spark_jobs.streaming.tracking.replay.failures import newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import (
    refusal_reason,
    replay_times,
    retry_dead_letter,
)
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
            self.log._append(OutgoingRecord("words.dead-letters", unit, content, place))

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
