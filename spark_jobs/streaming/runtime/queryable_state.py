"""Queryable state: questions to the states of a stage's units, which the tasks that run the units answer.

A question is a message of the topic `JOB.STAGE.state-requests`. Each task answers for its units (`worker.state_server`)
in `JOB.STAGE.state-replies`, with the result of the stage's `state_query` on the newest complete state.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, MessageLog, OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage

_QUESTION, _UNIT, _ROUND, _PART, _UNTIL = "question", "unit", "round", "part", "until"


@dataclass(frozen=True)
class Question:
    """A question to all units of a stage: its id, until when an answer is of use (since 1970), and its content."""

    id: str
    until: float
    content: bytes

    def as_record(self, stage: Stage) -> OutgoingRecord:
        """Return the message that asks it."""
        headers = {_QUESTION: self.id.encode(), _UNTIL: repr(self.until).encode()}
        return OutgoingRecord(stage.state_requests, 0, self.content, headers)

    @staticmethod
    def of(message: Message) -> Question | None:
        """Return the question in a message; None if there is none."""
        try:
            headers = message.headers
            return Question(headers[_QUESTION].decode(), float(headers[_UNTIL]), bytes(message.value))
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True)
class Reply:
    """A part of a unit's reply to a question: of the state after a round, part `part` of `parts`; Arrow, or nothing."""

    question: str
    unit: int
    round_id: RoundId
    part: int
    parts: int
    content: bytes

    def as_record(self, stage: Stage) -> OutgoingRecord:
        """Return the message with it."""
        headers = {
            _QUESTION: self.question.encode(),
            _UNIT: str(self.unit).encode(),
            _ROUND: f"{self.round_id[0]}.{self.round_id[1]}".encode(),
            _PART: f"{self.part}.{self.parts}".encode(),
        }
        return OutgoingRecord(stage.state_replies, 0, self.content, headers)

    @staticmethod
    def of(message: Message) -> Reply | None:
        """Return the reply in a message; None if there is none."""
        try:
            headers = message.headers
            incarnation, number = map(int, headers[_ROUND].split(b"."))
            part, parts = map(int, headers[_PART].split(b"."))
            round_id = (incarnation, number)
            return Reply(headers[_QUESTION].decode(), int(headers[_UNIT]), round_id, part, parts, bytes(message.value))
        except (KeyError, ValueError):
            return None


def query_states(stage: Stage, log: MessageLog, content: bytes, seconds: float) -> Mapping[int, list[pa.RecordBatch]]:
    """Return the answers of all units that have completed a round, from states that are at least as new as this call.

    Raises `MissingStateError` before the first round, or if a unit does not answer within `seconds` seconds.
    """
    reports = StageReports(stage, log)
    reports.catch_up()
    required = {unit: report.round_id for unit, report in reports.newest.items()}
    if len(required) < stage.units:
        raise MissingStateError(f"{stage.id}: no states yet: the job has not completed a round")
    offset = log.offset_bounds(stage.state_replies)[0].high
    question = Question(uuid.uuid4().hex, time.time() + seconds, content)
    with log.record_sender() as record_sender:
        record_sender.send(question.as_record(stage))
    until = time.monotonic() + seconds
    replies: dict[tuple[int, RoundId], dict[int, Reply]] = {}
    answers: dict[int, list[pa.RecordBatch]] = {}
    while len(answers) < len(required):
        messages = log.follow(stage.state_replies, 0, offset, max(until - time.monotonic(), 0.0))
        for message in messages:
            offset = message.offset + 1
            reply = Reply.of(message)
            if reply is None or reply.question != question.id or reply.round_id < required.get(reply.unit, NO_ROUND):
                continue
            parts = replies.setdefault((reply.unit, reply.round_id), {})
            parts[reply.part] = reply
            if len(parts) == reply.parts:
                answers[reply.unit] = [batch for _, each in sorted(parts.items()) for batch in _batches(each.content)]
        if len(answers) < len(required) and time.monotonic() > until:
            unit = min(required.keys() - answers.keys())
            raise MissingStateError(
                f"{stage.id}[{unit}] does not answer: its stage is paused or restarting; try again, or see "
                f"`{COMMAND} status {stage.job}`"
            )
    return dict(sorted(answers.items()))


def _batches(content: bytes) -> list[pa.RecordBatch]:
    return list(pa.ipc.open_stream(content)) if content else []
