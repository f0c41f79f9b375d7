"""The command line of the Spark jobs: list and run operations, land files, run streams; every command speaks JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from springline.persistence.commands.arguments import refuse
from springline.persistence.errors import PersistenceError
from springline.persistence.model import Dataset, Strategy
from springline.persistence.platform import open_platform
from springline.persistence.redacting import traceback_without_secrets
from springline.persistence.terminal import console, print, print_json
from springline.persistence.wording import say_bytes, say_list, say_seconds
from springline.spark_jobs.class_archive import make_archive
from springline.spark_jobs.errors import SparkJobsError
from springline.spark_jobs.landing import YEAR, land, parse_days, write_manifest
from springline.spark_jobs.operations import RegisteredOperation, Registry, load_operations
from springline.spark_jobs.produce import produce
from springline.spark_jobs.runner import make_runner
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.cli import app as streams
from springline.spark_jobs.streaming.commands.backpressure import app as backpressure
from springline.spark_jobs.streaming.commands.join import app as join
from springline.spark_jobs.streaming.commands.tracking import app as tracking

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

app.add_typer(streams, name="streams")
app.add_typer(tracking, name="tracking")
app.add_typer(join, name="join")
app.add_typer(backpressure, name="backpressure")

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]


@app.command()
def operations(
    name: Annotated[str, typer.Argument(help="One operation, with its description")] = "", as_json: Json = False
) -> None:
    """List the registered operations with the lineage that they declare, makers of sources first."""
    registry = load_operations(JobSettings().operations)
    listed = [registry.get(name)] if name else list(registry.in_order())
    if as_json:
        print_json([_declaration(registry, declared) for declared in listed])
        return
    table = Table("operation", "reads", "makes", "", box=box.SIMPLE, padding=(0, 0), pad_edge=False)
    for declared in listed:
        sources = "\n".join(declared.sources.values()) or "(from outside)"
        table.add_row(declared.name, sources, declared.output, "\n".join(_marks(declared)))
    console().print(table)
    if name:
        print(f"{listed[0].doc}\nCode version {listed[0].version}; parameters: {', '.join(listed[0].parameters)}.")


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Operations, in the order to be run")] = None,
    ds: Annotated[str, typer.Option(help="The date, as 2013-01-05; or several, as `landing` takes them")] = "",
    all_: Annotated[bool, typer.Option("--all", help="All operations of the workflow, in order")] = False,
    param: Annotated[list[str], typer.Option(help="name=value; may be repeated")] = [],  # noqa: B006  (typer reads it once)
    strategy: Annotated[Strategy, typer.Option(help="When to persist what is made")] = Strategy.ASYNC_AND_SYNC,
    as_json: Json = False,
) -> None:
    """Run operations: each reads the newest generations of its sources and commits one of its output."""
    params = _params(param)
    settings = JobSettings()
    with (
        closing(make_runner(settings)) as runner,
        closing(open_platform(runner=runner, who="command line")) as platform,
    ):
        wanted = _wanted(runner.registry, names or [], all_)
        made = []
        for date in _dates(ds):
            for name in wanted:
                made.append(produce(platform, name, {**params, **date}, strategy=strategy))
                if not as_json:
                    _say(made[-1])
    if as_json:
        print_json([_row(dataset) for dataset in made])


@app.command()
def landing(
    days: Annotated[str, typer.Option(help="2013-01-05, 2013-01-05..2013-01-07, or several with commas between")],
    folder: Annotated[Path | None, typer.Option(help="Where to; default: SPRINGLINE_LANDING")] = None,
    copies: Annotated[int, typer.Option(min=1, help="Every flight so many times over, for larger files")] = 1,
    as_json: Json = False,
) -> None:
    """Write the landing files of some days of 2013, the year of the flights that come with the packages."""
    chosen = parse_days(days)
    if strange := [day.isoformat() for day in chosen if day.year != YEAR]:
        raise ValueError(f"there are no flights of {say_list(strange)}: give days of {YEAR}, such as {YEAR}-01-05")
    landed = land(chosen, folder or JobSettings().landing_folder, copies=copies)
    if as_json:
        print_json([{"path": str(one.path), "rows": one.rows, "bytes": one.manifest.size,
                      "fresh": one.fresh} for one in landed])  # fmt: skip
        return
    for one in landed:
        said = "" if one.fresh else " (was there)"
        print(f"{one.path}: {one.rows:,} rows, {say_bytes(one.manifest.size)}{said}")


@app.command()
def manifest(
    files: Annotated[list[Path], typer.Argument(help="Landing files that are whole, as they are sent")],
) -> None:
    """Write the manifest beside landing files, without which no load takes them: lines, bytes and a checksum."""
    for file in files:
        print(f"{file}: {write_manifest(file)}")


@app.command()
def class_archive() -> None:
    """Make the archive of Spark's classes from which its JVM starts in half the time; `make setup` does."""
    archive = make_archive(JobSettings().home)
    print(f"{archive}: {say_bytes(archive.stat().st_size)}")


def main() -> None:
    """Run the command line; a known error is one line and exit status 2 for misuse, 1 for a failure."""
    try:
        with traceback_without_secrets(SparkJobsError, PersistenceError, ValueError):
            app(standalone_mode=True)
    except (SparkJobsError, PersistenceError, ValueError) as error:
        refuse("error", error)


def _marks(declared: RegisteredOperation) -> list[str]:
    marks = {
        "not idempotent": not declared.idempotent,
        "checkpoint": declared.checkpoint,
        "temporary": declared.temporary,
    }
    return [mark for mark, holds in marks.items() if holds]


def _wanted(registry: Registry, names: Sequence[str], everything: bool) -> list[str]:
    if everything == bool(names):
        raise ValueError("name the operations to run, or give --all")
    return [registry.get(name).name for name in names] or [declared.name for declared in registry.in_order()]


def _dates(text: str) -> list[dict[str, str]]:
    return [{"ds": day.isoformat()} for day in parse_days(text)] if text else [{}]


def _params(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            raise ValueError(f"--param {one}: write it as name=value")
    return dict(one.split("=", 1) for one in given)  # type: ignore[misc]


def _say(dataset: Dataset) -> None:
    took = say_seconds(dataset.made_seconds or 0.0)
    print(f"{dataset.ref}: {dataset.rows or 0:,} rows, {say_bytes(dataset.bytes)}, in {took}", flush=True)


def _row(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": str(dataset.ref),
        "operation": dataset.call.name if dataset.call else None,
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "digest": dataset.digest,
        "seconds": dataset.made_seconds,
        "sources": [str(source) for source in dataset.sources],
        "report": dataset.report,
    }


def _declaration(registry: Registry, declared: RegisteredOperation) -> dict[str, Any]:
    return {
        "name": declared.name,
        "doc": declared.doc,
        "sources": dict(declared.sources),
        "output": declared.output,
        "after": list(registry.edges[declared.name]),
        "outside": list(registry.outside(declared.name)),
        "idempotent": declared.idempotent,
        "checkpoint": declared.checkpoint,
        "temporary": declared.temporary,
        "options": dict(declared.options),
        "parameters": list(declared.parameters),
        "version": declared.version,
    }
