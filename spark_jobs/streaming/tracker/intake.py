"""The first stage of a tracker: reads the requests of clients, and sends them to the ackers that own the roots."""

from __future__ import annotations

import numpy as np

from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.tracker.wire import TrackerRequests
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.wire import MessageKind

_MOST = 1 << 18  # rows of a batch: a quarter of the capacity of a message


class Intake:
    """The step: registers the roots of each attempt individually, and combines its acks by root."""

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        ack_output = AckOutput(step_input.round.broadcast_values["ring"])
        parts: list[TrackerRequests] = []
        dead: list[DeadLetter] = []
        for message in step_input.messages:
            try:
                parts.append(TrackerRequests.read(message.value))
            except InvalidUpdateError as error:
                dead.append(DeadLetter.of(message, str(error)))
        requests = TrackerRequests.concat(parts)
        acks: Acks = {}
        for attempt in np.unique(requests.attempts).tolist():
            for begins, kind in ((True, MessageKind.RETRIES), (False, MessageKind.ACKS)):
                selection = requests.select((requests.attempts == attempt) & (requests.begins == begins))
                selection = selection.select(np.argsort(selection.roots, kind="stable"))
                for start in range(0, selection.roots.size, _MOST):
                    part = selection.select(slice(start, start + _MOST))
                    add_batches(acks, ack_output.acks(part.roots, part.values, attempt, kind=kind))
        started_count = int(requests.begins.sum())
        counts = {"started": started_count, "acks": requests.roots.size - started_count, "dead_letters": len(dead)}
        return Output(state, dead_letters=dead, counts=counts, acks=acks, timer=None)
