"""The stage that sends roots again: reads what ackers tell, and the records anew from the source, where they still are.

It is a spring like the first stage, and registers what it sends as another attempt. What is given up goes to the dead
letters with its content. Records that are another acker's by now pass through here on their way to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import Ackers, Acks, extend
from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.root_id import name_of
from springline.spark_jobs.streaming.tracking.wire import Kind, Told

_Place = tuple[int, int]  # partition and offset
_NEAR = 16  # messages between two wanted ones that are read rather than skipped


@dataclass(frozen=True)
class Emitted:
    """What came of some rows: buffers for the units downstream, and the edges that left, XORed, of each row."""

    buffers: Mapping[int, Sequence[pa.RecordBatch]]
    values: Ids


# Rows of one message, by number, in an attempt; and what a row is as bytes.
Emit = Callable[[int, Message, Sequence[int], int], Emitted]
RowOf = Callable[[Message, int], bytes]


@dataclass
class _Work:
    """What a round makes."""

    buffers: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    acks: Acks = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Again:
    """The step: `source` is the topic of the records, `emit` does with them what the first stage does."""

    def __init__(self, source: str, emit: Emit, row_of: RowOf) -> None:
        self._source = source
        self._emit = emit
        self._row_of = row_of

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        ackers = Ackers(given.round.versions["ring"])
        work = _Work()
        for told in told_in(given):
            if told.kind is Kind.RECORDS:
                extend(work.acks, ackers.records(told.items()))
            else:
                self._send_again(work, told, ackers, given)
        return Output(
            state, work.buffers, dead=work.dead, counts=dict(sorted(work.counts.items())), acks=work.acks
        )  # fmt: skip

    def _send_again(self, work: _Work, told: Told, ackers: Ackers, given: Input) -> None:
        pairs = sorted(zip(told.column("attempt").tolist(), told.column("root").tolist(), strict=True))
        for attempt, group in groupby(pairs, key=lambda pair: pair[0]):
            roots = [root for _, root in group]
            names = [name_of(root) for root in roots]
            messages, gone = self._messages(given, {(name.partition, name.offset) for name in names})
            values: list[Ids] = []
            for (partition, offset), named in groupby(names, key=lambda name: name[:2]):
                rows = [name.row for name in named]
                message = messages.get((partition, offset))
                if told.kind is Kind.GONE or message is None:
                    if message is not None or (partition, offset) in gone:  # else it never was: offsets have gaps
                        work.dead += self._dead(partition, offset, message, rows, attempt)
                    values.append(np.zeros(len(rows), np.uint64))  # which completes it: nobody waits any more
                    work.counts["gone"] += len(rows)
                else:
                    emitted = self._emit(partition, message, rows, attempt)
                    extend(work.buffers, emitted.buffers)
                    values.append(emitted.values)
                    work.counts["again"] += len(rows)
            if told.kind is Kind.AGAIN:
                sent = ackers.acks(np.array(roots, np.uint64), np.concatenate(values), attempt, kind=Kind.RETRIES)
                extend(work.acks, sent)

    def _messages(self, given: Input, wanted: set[_Place]) -> tuple[dict[_Place, Message], set[_Place]]:
        """The wanted messages that are still there, and the places that are gone; neighbours are read together."""
        found: dict[_Place, Message] = {}
        gone: set[_Place] = set()
        for partition, start, to in _spans(wanted):
            try:
                for message in given.source(self._source, partition, start, to):
                    found[partition, message.offset] = message
            except MessagesLostError:
                gone |= {place for place in wanted if place[0] == partition and start <= place[1] < to}
        return found, gone - set(found)

    def _dead(
        self, partition: int, offset: int, message: Message | None, rows: Sequence[int], attempt: int
    ) -> Iterator[DeadLetter]:
        for row in rows:
            content = b"" if message is None else self._row_of(message, row)
            gone = "; the source does not hold it any more" if message is None else ""
            times = "once" if attempt == 1 else f"{attempt} times"
            reason = f"row {row}: sent {times} and not processed to the end in time{gone}"
            yield DeadLetter(offset, content, reason, partition, self._source)


def _spans(places: set[_Place]) -> Iterator[tuple[int, int, int]]:
    """Partitions and offsets [start, to) that cover the places, with small gaps."""
    span: tuple[int, int, int] | None = None
    for partition, offset in sorted(places):
        if span is not None and span[0] == partition and offset - span[2] < _NEAR:
            span = (partition, span[1], offset + 1)
            continue
        if span is not None:
            yield span
        span = (partition, offset, offset + 1)
    if span is not None:
        yield span


def told_in(given: Input) -> Iterator[Told]:
    """What ackers have told in this incarnation: what others before it have told was undone."""
    for message in given.messages:
        stamp = stamp_of(message)  # what has none is somebody else's
        if stamp is not None and stamp.incarnation == given.round.incarnation:
            yield Told.read(message.value)
