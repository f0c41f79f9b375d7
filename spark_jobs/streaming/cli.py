"""The command line of streams: run and watch jobs, register queries while they run, ask, read results, feed topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from persistence.wording import say_bytes
from spark_jobs.streaming.asking import ask as answer_to
from spark_jobs.streaming.commands.arguments import JobName, Json, job_named
from spark_jobs.streaming.commands.kept import sql
from spark_jobs.streaming.commands.savepoints import rewind, savepoint, savepoints
from spark_jobs.streaming.errors import StreamError
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.inputs.feeding import Source, messages_of, send
from spark_jobs.streaming.jobs import job_of, read_jobs
from spark_jobs.streaming.kafka import Kafka
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.supervision import launch
from spark_jobs.streaming.tailing import newest
from spark_jobs.streaming.watching import Seen, look
from spark_jobs.streaming.windows.registry import Registry

app = typer.Typer(help=__doc__, invoke_without_command=True)
for command in (savepoint, savepoints, rewind, sql):
    app.command()(command)

QueryName = Annotated[str, typer.Argument(help="The query's name")]
Sql = Annotated[str, typer.Argument(help="SELECT … GROUP BY … WINDOWING 60 s")]

_REFRESH_SECONDS = 1.0
_BEGIN_SECONDS = 10.0  # until an application that was started holds its job


@app.callback()
def streams(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print once instead of watching")] = False,
    as_json: Json = False,
) -> None:
    """Watch the jobs: what runs, how far it is, how far behind. Ctrl-C ends the watching, not the jobs."""
    if context.invoked_subcommand is not None:
        return
    settings = StreamSettings()
    if as_json:
        print(json.dumps([seen.as_json() for seen in _seen(settings)], indent=2))
        return
    if once or not Console().is_terminal:
        Console().print(_table(_seen(settings), settings))
        return
    with Live(_table(_seen(settings), settings), screen=False) as live:
        try:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(_table(_seen(settings), settings))
        except KeyboardInterrupt:
            pass


@app.command()
def run(job: JobName) -> None:
    """Be a job's application until it is asked to stop; its DAG does this for you."""
    from spark_jobs.streaming.application import run_job  # starts with Spark

    settings = StreamSettings()
    run_job(job_of(settings.declarations, job), settings)


@app.command()
def start(job: JobName, patience: Annotated[float, typer.Option(help="Seconds to wait until it runs")] = 120.0) -> None:
    """Start a job's application in the background, without a DAG; returns when every stage has ended a round."""
    _, folder = job_named(job)
    if not folder.runs():
        launch(job, folder)
    until = time.monotonic() + patience
    while not (seen := look(job, folder, time.time())).works:
        ended = seen.began is None and time.monotonic() > until - patience + _BEGIN_SECONDS
        if ended or time.monotonic() > until:
            why = seen.error or f"it is {seen.state} after {patience - until + time.monotonic():.0f} s"
            raise StreamError(f"{job}: {why}; its log: {folder.log_file}")
        time.sleep(0.2)
    print(f"{job}: running, process {seen.pid}")


@app.command()
def stop(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; none: all")] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait until each has ended")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of jobs that do not run")] = False,
) -> None:
    """End jobs' applications when the rounds that are planned are through."""
    settings = StreamSettings()
    for job in jobs or sorted(read_jobs(settings.declarations)):
        _, folder = job_named(job)
        if folder.runs():
            _stop(job, folder, patience)
        elif not quiet:
            print(f"{job}: does not run")


def _stop(job: str, folder: JobFolder, patience: float) -> None:
    folder.ask_to_stop()
    if not folder.await_end(patience):
        raise StreamError(f"{job}: asked to stop, and still running after {patience:g} s; its log: {folder.log_file}")
    print(f"{job}: stopped")


@app.command()
def queries(job: JobName, as_json: Json = False) -> None:
    """List a job's queries."""
    declared, folder = job_named(job)
    registry = folder.registry() or declared.registry()
    if as_json:
        print(json.dumps(registry.as_json()["queries"], indent=2))
        return
    table = Table("query", "since version", "SQL", box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for query in registry.registered:
        table.add_row(query.name, str(query.since), query.sql)
    Console().print(table)


@app.command()
def register(job: JobName, name: QueryName, sql: Sql) -> None:
    """Register a query; it is answered from the first window on that begins after now."""
    _change(job, lambda registry: registry.register(name, sql), f"{name} is registered")


@app.command()
def change(job: JobName, name: QueryName, sql: Sql) -> None:
    """Give a query another text."""
    _change(job, lambda registry: registry.change(name, sql), f"{name} is changed")


@app.command()
def cancel(job: JobName, name: QueryName) -> None:
    """End a query."""
    _change(job, lambda registry: registry.cancel(name), f"{name} is cancelled")


@app.command()
def ask(job: JobName, sql: Annotated[str, typer.Argument(help="SELECT … GROUP BY …")], as_json: Json = False) -> None:
    """Ask once, of the slices that the job holds at this moment."""
    settings = StreamSettings()
    declared, folder = job_named(job)
    found = answer_to(declared, folder.registry() or declared.registry(), settings.state_folder, sql)
    rows = found.rows.to_pylist()
    if as_json:
        print(json.dumps(rows, default=str, indent=2))
        return
    table = Table(*found.rows.column_names, box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)


@app.command()
def results(
    job: JobName,
    query: Annotated[str, typer.Option(help="Only those of this query")] = "",
    last: Annotated[int, typer.Option("-n", min=1, help="So many rows, over all units")] = 10,
) -> None:
    """Print the newest results as lines of JSON, the newest last."""
    declared, _ = job_named(job)
    with closing(Kafka(StreamSettings().cluster)) as log:
        for row in newest(log, declared.results, last, query):
            print(json.dumps(row, ensure_ascii=False))


@app.command()
def feed(
    source: Annotated[Source, typer.Argument(help="flights: those of 2013; flows: net-flow rows, drawn at random")],
    topic: Annotated[str, typer.Option(help="Where to; default: the source's name")] = "",
    rows: Annotated[int | None, typer.Option(min=1, help="So many; default: all flights, or a million flows")] = None,
    size: Annotated[int, typer.Option(min=1, help="Rows in a message")] = 100,
    units: Annotated[int, typer.Option(min=1, help="Units of the topic, where it is made now")] = 2,
    speed: Annotated[
        float, typer.Option(help="Flights: seconds of 2013 a second. Flows: rows a second. 0: at once")
    ] = 0,
) -> None:
    """Send rows to a topic."""
    chosen = topic or source.value
    with closing(Kafka(StreamSettings().cluster)) as log:
        log.create({chosen: units})
        sent = send(log, chosen, messages_of(source, rows=rows, size=size, speed=speed))
    print(f"{sent:,} messages sent to {chosen}")


def _change(job: str, make: Callable[[Registry], Registry], said: str) -> None:
    declared, folder = job_named(job)
    changed = folder.change(lambda known: make(declared.registry() if known is None else known))
    print(f"{job}: {said}; version {changed.version} of its queries")


def _seen(settings: StreamSettings) -> list[Seen]:
    jobs = read_jobs(settings.declarations)
    return [look(name, settings.folder(name), time.time()) for name in jobs]


def _table(jobs: list[Seen], settings: StreamSettings) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False, caption_justify="left")
    for name in ("job", "state", "for", "stage"):
        table.add_column(name)
    for name in ("round", "rows", "behind", "round takes", "state size", "late", "dead"):
        table.add_column(name, justify="right")
    for seen in jobs:
        stages: list[tuple[str, dict[str, Any]]] = list(seen.stages.items()) or [("", {})]
        for number, (stage, told) in enumerate(stages):
            first = (seen.job, seen.state, _span(seen.began)) if not number else ("", "", "")
            counts = told.get("counts", {})
            table.add_row(
                *first, stage, *(f"{told[key]:,}" if key in told else "" for key in ("round",)),
                f"{counts.get('rows', counts.get('results', 0)):,}" if told else "",
                f"{told['behind']:,}" if told else "",
                f"{told['seconds'] * 1000:,.0f} ms" if told else "",
                say_bytes(told["state_bytes"]) if told else "",
                *(f"{counts[key]:,}" if key in counts else "" for key in ("late", "dead")),
            )  # fmt: skip
        if seen.error:
            table.add_row("", f"[red]{seen.error}[/red]")
    if not jobs:
        table.caption = f"no jobs are declared in {settings.declarations}"
    return table


def _span(began: float | None) -> str:
    """The time since then, as hours, minutes and seconds."""
    if began is None:
        return ""
    whole = int(time.time() - began)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
