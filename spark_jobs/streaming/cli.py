"""The command line of streams: run and watch jobs, register queries while they run, ask, read results, feed topics."""

from __future__ import annotations

import typer

from springline.spark_jobs.streaming.commands.feeding import feed, send
from springline.spark_jobs.streaming.commands.forgetting import forget
from springline.spark_jobs.streaming.commands.queries import ask, cancel, change, queries, register
from springline.spark_jobs.streaming.commands.results import results, sql
from springline.spark_jobs.streaming.commands.running import run, start, stop
from springline.spark_jobs.streaming.commands.savepoints import rewind, savepoint, savepoints
from springline.spark_jobs.streaming.commands.watching import watch

app = typer.Typer(help=__doc__, invoke_without_command=True, add_completion=False)
app.callback()(watch)
for command in (
    run, start, stop, queries, register, change, cancel, ask, results, sql, savepoint, savepoints, rewind, forget,
    feed, send,
):  # fmt: skip
    app.command()(command)
