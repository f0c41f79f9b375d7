"""From what clients write to what they hear: intake, ackers and outcome, round by round."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, encode_results
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State
from springline.spark_jobs.streaming.tracker import intake as module
from springline.spark_jobs.streaming.tracker.client import Tracker
from springline.spark_jobs.streaming.tracker.intake import Intake
from springline.spark_jobs.streaming.tracker.outcome import OutcomeStep
from springline.spark_jobs.streaming.tracker.wire import TrackerRequests
from springline.spark_jobs.streaming.tracking.acker.acker import Acker
from springline.spark_jobs.streaming.tracking.records import tracking_records
from springline.spark_jobs.streaming.tracking.wire import AckEncoder, AckMessage, MessageKind
from springline.testing.memory_log import MemoryLog

RING = {"max_ackers": 2, "epochs": {"1": [0]}}


class Steps:
    """A tracker of one acker, whose steps are called one after another, a second apart."""

    def __init__(self) -> None:
        self.log = MemoryLog({"t.requests": 1, "t.results": 1})
        self.client = Tracker("", "t", log=self.log)
        self.intake, self.outcome = Intake(), OutcomeStep()
        self.acker = Acker(8.0, 1, "slots", outcomes=True)
        self.state, self.number, self.read = State(), 0, 0
        self.intake_output = Output(State())

    def round(self) -> list[tuple[int, int, str]]:
        """What a round of all three emits; `intake_output` is what the intake made of it."""
        self.client.flush()
        self.number += 1
        messages = self.log.topics["t.requests"][0][self.read :]
        self.read += len(messages)
        self.intake_output = self.intake(State(), self.step_input("intake", messages))
        acked = self.acker(self.state, self.step_input("acker", _messages(self.intake_output.acks.get(0, ()))))
        self.state = acked.state
        output = self.outcome(State(), self.step_input("outcome", _messages(acked.feedback)))
        stage = Stage("outcome", "", "t.told", job="t", results="t.results")
        lines = [line for letter in encode_results(stage, 0, (1, 1), output) for line in letter.value.splitlines()]
        return [(result["root"], result["attempt"], result["outcome"]) for result in map(json.loads, lines)]

    def step_input(self, stage: str, messages: Sequence[Message]) -> Input:
        """The input of a step in this round."""
        versions = {"ring": RING, "clock": {"paused": False}}
        return Input(stage, 0, Round(1, self.number, 100.0 + self.number, versions), messages)

    @property
    def values(self) -> dict[int, int]:
        """The check value of each root that is in flight."""
        records = self.acker._memories[0].table.records()
        return dict(zip(records.roots.tolist(), records.values.tolist(), strict=True))


def _messages(batches: Sequence[pa.RecordBatch], incarnation: int = 1) -> list[Message]:
    stamp = Stamp(incarnation, 0, 1, 0).header()
    return [Message(number, arrow_bytes(batch), headers=stamp) for number, batch in enumerate(batches)]


def test_the_paper_s_worked_example_from_a_client_s_acks() -> None:
    """The check value after each event is that of the paper's table."""
    steps, root = Steps(), 0b01001
    steps.client.begin(root, [0b01010, 0b01011])
    assert (steps.round(), steps.values) == ([], {root: 0b00001})
    steps.client.ack(root, 0b01010, [0b01100])
    assert (steps.round(), steps.values) == ([], {root: 0b00111})
    steps.client.ack(root, 0b01011, [0b01101])
    assert (steps.round(), steps.values) == ([], {root: 0b00001})
    steps.client.ack(root, 0b01100)
    steps.client.ack(root, 0b01101)
    assert (steps.round(), steps.values) == ([(root, 1, "finished")], {})


def test_a_root_that_is_not_through_in_time_has_failed_once_in_its_attempt() -> None:
    """It may begin again under the next number, and what comes late for the first one is dropped."""
    steps = Steps()
    steps.client.begin(7, [5])
    assert [outcome for _ in range(12) for outcome in steps.round()] == [(7, 1, "failed")]
    steps.client.begin(7, [6], attempt=2)
    steps.client.ack(7, 5)
    assert steps.round() == []
    steps.client.ack(7, 6, attempt=2)
    assert steps.round() == [(7, 2, "finished")]
    assert [outcome for _ in range(12) for outcome in steps.round()] == []


def test_acks_of_a_root_that_is_not_registered_finish_nothing() -> None:
    """Before it begins they wait; without it they are forgotten."""
    steps = Steps()
    steps.client.ack(7, 5)
    steps.client.ack(8, 5)
    assert steps.round() == []
    steps.client.begin(7, [5])
    assert steps.round() == [(7, 1, "finished")]
    assert [outcome for _ in range(12) for outcome in steps.round()] == [] and steps.values == {}


def test_an_ack_that_comes_twice_finishes_nothing() -> None:
    """It undoes itself, which a time-out finds."""
    steps = Steps()
    steps.client.begin(7, [5])
    steps.client.ack(7, 5)
    steps.client.ack(7, 5)
    assert [outcome for _ in range(12) for outcome in steps.round()] == [(7, 1, "failed")]


REQUEST = TrackerRequests.of([(7, 1, True, 0)]).encode()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"hello", "not an Arrow stream"),
        (REQUEST.replace(b"value", b"valud"), ""),
        (REQUEST.replace(b"value", b"\xff\xfelue"), ""),
    ],
)
def test_a_message_that_cannot_be_read_goes_to_the_dead_letters_with_the_reason(message: bytes, expected: str) -> None:
    """The others are taken; names of columns may be no text."""
    steps = Steps()
    steps.log.put("t.requests", 0, message)
    steps.client.begin(7, [])
    assert steps.round() == [(7, 1, "finished")]
    ((offset, value, reason),) = [(each.offset, each.value, each.reason) for each in steps.intake_output.dead_letters]
    assert (offset, value) == (0, message) and expected in reason
    assert steps.intake_output.counts == {"started": 1, "acks": 0, "dead_letters": 1}


def test_a_round_of_many_rows_is_sent_in_buffers_that_a_message_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost by that."""
    monkeypatch.setattr(module, "_MOST", 3)
    steps = Steps()
    for root in range(10):
        steps.client.begin(root, [])
    assert sorted(root for root, _, _ in steps.round()) == list(range(10))
    assert [batch.num_rows for batch in steps.intake_output.acks[0]] == [3, 3, 3, 1]


def test_records_on_their_way_between_ackers_are_passed_on_and_not_emitted() -> None:
    """Whose they are, the ring says."""
    records = tracking_records([1, 2, 3], 1, True, 0, [7, 8, 9])
    steps = Steps()
    output = steps.outcome(State(), steps.step_input("outcome", _messages([AckEncoder(1, [0]).records(records)])))
    message = AckMessage.read(arrow_bytes(output.acks[0][0]))
    assert message.kind is MessageKind.RECORDS and message.records().values.tolist() == [7, 8, 9] and not output.results


def test_outcomes_from_before_a_rewind_are_not_emitted_again() -> None:
    """It was undone."""
    steps = Steps()
    completed: Any = AckEncoder(1, [0]).root_attempts(
        tracking_records([1], 1, True, 0, 0).roots, tracking_records([1], 1, True, 0, 0).attempts, MessageKind.COMPLETED
    )
    assert not steps.outcome(State(), steps.step_input("outcome", _messages([completed], incarnation=0))).results
