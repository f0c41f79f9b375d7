"""The commands that send rows to a topic: sample data, or the lines of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from springline.persistence.text.formatting import format_count
from springline.persistence.text.terminal import print_result, progress
from springline.spark_jobs.streaming.commands.arguments import Json
from springline.spark_jobs.streaming.commands.jobs import opened_log
from springline.spark_jobs.streaming.examples.datagen import SampleSource, lines_of, messages_of
from springline.spark_jobs.streaming.examples.datagen import send as send_when_due
from springline.spark_jobs.streaming.examples.flights import TimedMessage

_REPORT_EVERY = 100  # messages

Size = Annotated[int, typer.Option(min=1, help="Rows in a message")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the topic, if it is created now")]


def generate(
    source: Annotated[
        SampleSource,
        typer.Argument(help="flights: those of 2013. Random: flows (net-flow rows), lines, orders, items"),
    ],
    topic: Annotated[str, typer.Option(help="Topic; default: the source's name")] = "",
    rows: Annotated[int | None, typer.Option(min=1, help="Number of rows; default: all flights, or a million")] = None,
    size: Size = 100,
    partitions: Partitions = 2,
    speed: Annotated[
        float, typer.Option(help="Flights: seconds of 2013 per second. Others: rows per second. 0: no limit")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Generate sample rows and send them to a topic."""
    _send(topic or source.value, partitions, messages_of(source, rows=rows, size=size, speed=speed), as_json)


def send(
    topic: Annotated[str, typer.Argument(help="Topic")],
    file: Annotated[
        Path, typer.Argument(help="Text file with one row per line, in the format that the job declares", exists=True)
    ],
    size: Size = 100,
    partitions: Partitions = 2,
    as_json: Json = False,
) -> None:
    """Send the lines of a file to a topic."""
    _send(topic, partitions, lines_of(file, size=size), as_json)


def _send(topic: str, partitions: int, messages: Iterable[TimedMessage], as_json: bool) -> None:
    with progress(f"sending to {topic}", quiet=as_json) as say, opened_log() as log:
        log.create({topic: partitions})

        def counted_messages() -> Iterator[TimedMessage]:
            for number, message in enumerate(messages):
                if number % _REPORT_EVERY == 0:
                    say(f"sending to {topic}: {format_count(number, 'message')}")
                yield message

        sent = send_when_due(log, topic, counted_messages())
    print_result(as_json, {"topic": topic, "messages": sent}, f"{format_count(sent, 'message')} sent to {topic}")
