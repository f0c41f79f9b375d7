"""Commands about operations: list them, show one, run some."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from springline.persistence.commands.arguments import Json, parameters_of
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.platform import open_platform
from springline.persistence.text.formatting import say_bytes, say_seconds
from springline.persistence.text.terminal import console, print, print_json, progress
from springline.spark_jobs.landing import parse_days
from springline.spark_jobs.materialize import produce
from springline.spark_jobs.operations import RegisteredOperation, Registry, load_operations
from springline.spark_jobs.runner import make_runner
from springline.spark_jobs.settings import JobSettings


def list_operations(as_json: Json = False) -> None:
    """List the registered operations with the lineage that they declare, makers of sources first."""
    registry = load_operations(JobSettings().operations)
    declared = list(registry.in_order())
    if as_json:
        print_json([_declaration(registry, each) for each in declared])
    else:
        console().print(_table(declared))


def show(
    name: Annotated[str, typer.Argument(help="An operation, as `springline operation list` names it")],
    as_json: Json = False,
) -> None:
    """Show what an operation declares, its description and the version of its code."""
    registry = load_operations(JobSettings().operations)
    declared = registry.get(name)
    if as_json:
        print_json(_declaration(registry, declared))
        return
    console().print(_table([declared]))
    print(f"{declared.doc}\nCode version {declared.version}; parameters: {', '.join(declared.parameters)}.")


def run(
    names: Annotated[list[str] | None, typer.Argument(help="Operations, in the order to be run")] = None,
    ds: Annotated[str, typer.Option(help="The date, as 2013-01-05; or several, as `landing` takes them")] = "",
    all_: Annotated[bool, typer.Option("--all", help="All operations of the workflow, in order")] = False,
    param: Annotated[list[str], typer.Option(help="name=value; may be repeated")] = [],  # noqa: B006  (typer reads it once)
    strategy: Annotated[Strategy, typer.Option(help="When to persist what is made")] = Strategy.ASYNC_AND_SYNC,
    as_json: Json = False,
) -> None:
    """Run operations: each reads the newest generations of its sources and commits one of its output."""
    params = parameters_of(param)
    settings = JobSettings()
    with (
        progress("starting", quiet=as_json) as say,
        closing(make_runner(settings)) as runner,
        closing(open_platform(runner=runner, who="command line")) as platform,
    ):
        wanted = _wanted(runner.registry, names or [], all_)
        made = []
        for date in _dates(ds):
            for name in wanted:
                say(f"running {' of '.join([name, *date.values()])}")
                made.append(produce(platform, name, {**params, **date}, strategy=strategy))
                if not as_json:
                    _say(made[-1])
    if as_json:
        print_json([_row(dataset) for dataset in made])


def _table(listed: Sequence[RegisteredOperation]) -> Table:
    table = Table("operation", "reads", "makes", "", box=box.SIMPLE, padding=(0, 0), pad_edge=False)
    for declared in listed:
        sources = "\n".join(declared.sources.values()) or "(from outside)"
        table.add_row(declared.name, sources, declared.output, "\n".join(_marks(declared)))
    return table


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
