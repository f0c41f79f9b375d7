"""Messages as roots: what a round makes of its messages goes to each unit downstream, and is done there or not.

So all messages of a round share their edges, one to each unit of the next stage, and which these are follows from the
unit and the round: a range of offsets with one value stands for any number of roots. They are not sent again, since
what a round has made of them is of all of them together; what is lost is told, with its content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, State, Step
from springline.spark_jobs.streaming.tracking.ack_output import Ackers
from springline.spark_jobs.streaming.tracking.ids import child, root_edge
from springline.spark_jobs.streaming.tracking.replay.replay import Again
from springline.spark_jobs.streaming.tracking.wire import Span

_EPOCH = "tracking"  # in the scalars of a spring's state: the epoch in which the ackers heard of it last


def edge_of(unit: int, number: int, to: int) -> int:
    """The id of what a round of a unit sends to a unit of the next stage."""
    return child(root_edge(unit << 48 | number, 1), 1, to)


class Spring:
    """A step whose messages are tracked; `units` is how many units there are downstream."""

    def __init__(self, step: Step, units: int) -> None:
        self._step = step
        self._units = units

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        before = {name: value for name, value in state.scalars.items() if name != _EPOCH}
        output = self._step(State(before, state.runs), given)
        ackers = Ackers(given.round.versions["ring"])
        epoch = ackers.telling.epoch
        acks = {}
        if given.to > given.start or state.scalars.get(_EPOCH) != epoch:  # a new acker hears how far the source is
            value = 0
            for to in range(self._units):
                value ^= edge_of(given.unit, given.round.number, to)
            acks = ackers.sources(Span(given.unit, given.start, given.to - given.start, value), given.to)
        after = State({**output.state.scalars, _EPOCH: epoch}, output.state.runs)
        return replace(output, state=after, acks=acks)


class Sink:
    """A step that ends what springs have sent: with its round, what it was sent has been applied."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        output = self._step(state, given)
        spans = [
            Span(ended.unit, ended.start, ended.to - ended.start, edge_of(ended.unit, ended.round, given.unit))
            for ended in given.ended
        ]
        return replace(output, acks=Ackers(given.round.versions["ring"]).spans(spans))


def lost(source: str) -> Again:
    """The step that tells which messages were lost."""

    def emit(*_: object) -> NoReturn:
        raise AssertionError("messages are not sent again")

    return Again(source, emit, _content)


def _content(message: Message, row: int) -> bytes:
    return bytes(message.value)
