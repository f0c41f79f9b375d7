"""Tracking of whole messages: the output of a round goes to each downstream unit, and is completed there or not.

All messages of a round share their edges, one to each unit of the next stage, and the edges follow from the unit and
the round: a range of offsets with one value represents any number of roots. They are not retried, since the output of a
round belongs to all of its messages together; losses are reported with their content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, State, Step
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput
from springline.spark_jobs.streaming.tracking.ids import child, root_edge
from springline.spark_jobs.streaming.tracking.replay.replay import Replayer
from springline.spark_jobs.streaming.tracking.wire import MessageRange

_EPOCH = "tracking"  # in the scalars of a spring's state: the last epoch whose ackers it has informed


def edge_of(unit: int, number: int, to: int) -> int:
    """Return the edge id of the output of a round of `unit`, number `number`, to the unit `to` of the next stage."""
    return child(root_edge(unit << 48 | number, 1), 1, to)


class Spring:
    """A step whose messages are tracked; `units` is the number of downstream units."""

    def __init__(self, step: Step, units: int) -> None:
        self._step = step
        self._units = units

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        before = {name: value for name, value in state.scalars.items() if name != _EPOCH}
        output = self._step(State(before, state.runs), step_input)
        ack_output = AckOutput(step_input.round.versions["ring"])
        epoch = ack_output.encoder.epoch
        acks = {}
        if (
            step_input.to > step_input.start or state.scalars.get(_EPOCH) != epoch
        ):  # informs a new acker of the spring's offset
            value = 0
            for to in range(self._units):
                value ^= edge_of(step_input.unit, step_input.round.number, to)
            acks = ack_output.sources(
                MessageRange(step_input.unit, step_input.start, step_input.to - step_input.start, value), step_input.to
            )
        after = State({**output.state.scalars, _EPOCH: epoch}, output.state.runs)
        return replace(output, state=after, acks=acks)


class Sink:
    """A step that completes what springs have sent: when its round is committed, its input has been applied."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        output = self._step(state, step_input)
        ranges = [
            MessageRange(
                ended.unit, ended.start, ended.to - ended.start, edge_of(ended.unit, ended.round, step_input.unit)
            )
            for ended in step_input.ended_rounds
        ]
        return replace(output, acks=AckOutput(step_input.round.versions["ring"]).range_acks(ranges))


def lost_message_reporter(source: str) -> Replayer:
    """Return the step that reports which messages were lost."""

    def emit(*_: object) -> NoReturn:
        raise AssertionError("messages are not retried")

    return Replayer(source, emit, _content)


def _content(message: Message, row: int) -> bytes:
    return bytes(message.value)
