"""Sends sample rows to a topic: flights of 2013 at a given speed, random rows at a given rate, the lines of a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path

from springline.spark_jobs.streaming.examples import flights, lines, orders
from springline.spark_jobs.streaming.examples.flights import TimedMessage
from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord

_ROWS = 1_000_000  # of a random source
_AT_ONCE = 500  # messages per flush


class SampleSource(StrEnum):
    """The sample sources."""

    FLIGHTS = "flights"
    FLOWS = "flows"
    LINES = "lines"
    ORDERS = "orders"
    ITEMS = "items"


_DRAWN = {
    SampleSource.LINES: lines.messages,
    SampleSource.ORDERS: orders.order_messages,
    SampleSource.ITEMS: orders.item_messages,
}


def messages_of(source: SampleSource, *, rows: int | None, size: int, speed: float) -> Iterator[TimedMessage]:
    """Yield messages of `size` rows of a source, with the time at which each is due; with a speed of 0, all at once."""
    if source is SampleSource.FLIGHTS:
        for message in flights.messages(size=size, speed=speed or 1.0, rows=rows):
            yield TimedMessage(message.seconds if speed else 0.0, message.value)
        return
    if source in _DRAWN:
        values = _DRAWN[source](rows=rows or _ROWS, size=size)
    else:
        start = time.time() if speed else Flows(0).start
        values = Flows(rows or _ROWS, rate=speed or Flows(0).rate, start=start).messages(size=size)
    for number, value in enumerate(values):
        yield TimedMessage((number + 1) * size / speed if speed else 0.0, value)


def lines_of(file: Path, *, size: int) -> Iterator[TimedMessage]:
    """Yield messages of `size` lines of a file, all due at once; raises `OSError`."""
    with file.open("rb") as file_lines:
        while batch := list(islice(file_lines, size)):
            yield TimedMessage(0.0, b"".join(batch))


def send(
    log: MessageLog,
    topic: str,
    messages: Iterable[TimedMessage],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send messages when they are due, to the partitions in turn; return their number."""
    units = sorted(log.offset_bounds(topic))
    started_at, sent = clock(), 0
    batch: list[OutgoingRecord] = []

    def flush() -> None:
        with log.record_sender() as sending:
            for record in batch:
                sending.send(record)
        batch.clear()

    for message in messages:
        ahead = message.seconds - (clock() - started_at)
        if batch and (ahead > 0 or len(batch) >= _AT_ONCE):
            flush()
        if ahead > 0:
            sleep(ahead)
        batch.append(OutgoingRecord(topic, units[sent % len(units)], message.value))
        sent += 1
    flush()
    return sent
