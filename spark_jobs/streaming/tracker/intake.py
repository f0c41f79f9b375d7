"""The first stage of a tracker: reads what clients write, and sends it on to the ackers that hold the roots."""

from __future__ import annotations

import numpy as np

from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.tracker.wire import Asks
from springline.spark_jobs.streaming.tracking.ack_output import Ackers, Acks, extend
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.wire import Kind

_MOST = 1 << 18  # rows of a buffer: a quarter of what a message has room for


class Intake:
    """The step: each attempt's roots are registered one by one, its acks combined by root."""

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        ackers = Ackers(given.round.versions["ring"])
        parts: list[Asks] = []
        dead: list[DeadLetter] = []
        for message in given.messages:
            try:
                parts.append(Asks.read(message.value))
            except InvalidUpdateError as error:
                dead.append(DeadLetter(message.offset, bytes(message.value), str(error)))
        asks = Asks.together(parts)
        acks: Acks = {}
        for attempt in np.unique(asks.attempts).tolist():
            for begins, kind in ((True, Kind.RETRIES), (False, Kind.ACKS)):
                chosen = asks.at((asks.attempts == attempt) & (asks.begins == begins))
                chosen = chosen.at(np.argsort(chosen.roots, kind="stable"))
                for start in range(0, chosen.roots.size, _MOST):
                    part = chosen.at(slice(start, start + _MOST))
                    extend(acks, ackers.acks(part.roots, part.values, attempt, kind=kind))
        begun = int(asks.begins.sum())
        counts = {"begun": begun, "acks": asks.roots.size - begun, "dead": len(dead)}
        return Output(state, dead=dead, counts=counts, acks=acks)
