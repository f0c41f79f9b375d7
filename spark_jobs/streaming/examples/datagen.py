"""Sends rows to a topic: flights of 2013 at a chosen speed, what is drawn at a chosen rate, the lines of a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path

from springline.spark_jobs.streaming.examples import flights, lines, orders
from springline.spark_jobs.streaming.examples.flights import Due
from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log

_ROWS = 1_000_000  # of what is drawn
_AT_ONCE = 500  # messages that are waited for together


class Source(StrEnum):
    """What there is to send."""

    FLIGHTS = "flights"
    FLOWS = "flows"
    LINES = "lines"
    ORDERS = "orders"
    ITEMS = "items"


_DRAWN = {Source.LINES: lines.messages, Source.ORDERS: orders.order_messages, Source.ITEMS: orders.item_messages}


def messages_of(source: Source, *, rows: int | None, size: int, speed: float) -> Iterator[Due]:
    """Messages of `size` rows of a source, and when each is due; with a speed of 0, all at once."""
    if source is Source.FLIGHTS:
        for due in flights.messages(size=size, speed=speed or 1.0, rows=rows):
            yield Due(due.seconds if speed else 0.0, due.value)
        return
    if source in _DRAWN:
        values = _DRAWN[source](rows=rows or _ROWS, size=size)
    else:
        start = time.time() if speed else Flows(0).start
        values = Flows(rows or _ROWS, rate=speed or Flows(0).rate, start=start).messages(size=size)
    for number, value in enumerate(values):
        yield Due((number + 1) * size / speed if speed else 0.0, value)


def lines_of(file: Path, *, size: int) -> Iterator[Due]:
    """Messages of `size` lines of a file, all due at once; raises `OSError`."""
    with file.open("rb") as lines:
        while batch := list(islice(lines, size)):
            yield Due(0.0, b"".join(batch))


def send(
    log: Log,
    topic: str,
    messages: Iterable[Due],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send messages when they are due, to the units in turn; how many there were."""
    units = sorted(log.extents(topic))
    begun, sent = clock(), 0
    held: list[Letter] = []

    def flush() -> None:
        with log.sending() as sending:
            for letter in held:
                sending.send(letter)
        held.clear()

    for due in messages:
        ahead = due.seconds - (clock() - begun)
        if held and (ahead > 0 or len(held) >= _AT_ONCE):
            flush()
        if ahead > 0:
            sleep(ahead)
        held.append(Letter(topic, units[sent % len(units)], due.value))
        sent += 1
    flush()
    return sent
