"""Tracking of whole messages: the output of a round goes to each downstream unit, and is completed there or not.

The output of a round to a unit is one tuple, so the messages of a round and a partition are one fold, and fail together
if it does not close. They are not retried, since the output of a round belongs to all of them; losses are reported with
their content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np

from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges
from springline.spark_jobs.streaming.tracking.ids import child, root_edge
from springline.spark_jobs.streaming.tracking.replay.replay import Replayer
from springline.spark_jobs.streaming.tracking.root_id import root_id

_EPOCH = "tracking"  # in the scalars of a spring's state: the last epoch whose ackers it has informed


def _edge_of(fold: int, to: int) -> int:
    """Return the id of the output of a fold's round to the unit `to` of the next stage."""
    return child(root_edge(fold, 0), to, 0)


class Spring:
    """A step whose messages are tracked; `units` is the number of downstream units."""

    def __init__(self, step: Step, units: int) -> None:
        self._step = step
        self._units = units

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        before = {name: value for name, value in state.scalars.items() if name != _EPOCH}
        output = self._step(State(before, state.runs), step_input)
        ack_output = AckOutput(step_input.round.broadcast_values["ring"])
        epoch = ack_output.encoder.epoch
        acks = {}
        folds = [
            _fold_of(each, start, to, self._units) for each, (start, to) in step_input.ranges.items() if to > start
        ]
        if folds or state.scalars.get(_EPOCH) != epoch:  # informs a new acker of the spring's offsets
            acks = ack_output.folds(folds, {each: to for each, (_, to) in step_input.ranges.items()})
        after = State({**output.state.scalars, _EPOCH: epoch}, output.state.runs)
        return replace(output, state=after, acks=acks)


class Sink:
    """A step that completes what springs have sent: when its round is committed, its input has been applied."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        output = self._step(state, step_input)
        folds = [root_id(*start) for ended in step_input.ended_rounds for start in ended.starts.items()]
        values = {fold: _edge_of(fold, step_input.unit) for fold in folds}
        return replace(output, acks=AckOutput(step_input.round.broadcast_values["ring"]).fold_acks(values))


def _fold_of(partition: int, start: int, to: int, units: int) -> Fold:
    """Return the fold of the offsets [start, to) of a partition, one root each."""
    first = root_id(partition, start)
    value = 0
    for unit in range(units):
        value ^= _edge_of(first, unit)
    ranges = RowRanges(*(np.array([number], np.int64) for number in (start, to - start, 1)))
    return Fold.registration(partition, ranges, value, by_row=False)


def lost_message_reporter(source: str) -> Replayer:
    """Return the step that reports which messages were lost."""

    def emit(*_: object) -> NoReturn:
        raise AssertionError("messages are not retried")

    return Replayer(source, emit, _content)


def _content(message: Message, row: int) -> bytes:
    return bytes(message.value)
