"""The command that sends rows to a topic, to try things on."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from spark_jobs.streaming.inputs.feeding import Source, messages_of, send
from spark_jobs.streaming.kafka import Kafka
from spark_jobs.streaming.settings import StreamSettings


def feed(
    source: Annotated[
        Source,
        typer.Argument(help="flights: those of 2013; drawn at random: flows, net-flow rows; lines; orders, items"),
    ],
    topic: Annotated[str, typer.Option(help="Where to; default: the source's name")] = "",
    rows: Annotated[int | None, typer.Option(min=1, help="So many; default: all flights, or a million")] = None,
    size: Annotated[int, typer.Option(min=1, help="Rows in a message")] = 100,
    units: Annotated[int, typer.Option(min=1, help="Units of the topic, where it is made now")] = 2,
    speed: Annotated[
        float, typer.Option(help="Flights: seconds of 2013 a second. Others: rows a second. 0: at once")
    ] = 0,
) -> None:
    """Send rows to a topic."""
    chosen = topic or source.value
    with closing(Kafka(StreamSettings().cluster)) as log:
        log.create({chosen: units})
        sent = send(log, chosen, messages_of(source, rows=rows, size=size, speed=speed))
    print(f"{sent:,} messages sent to {chosen}")
