"""Commands for operations: list them, show one, run some."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from springline.persistence.commands.arguments import Json, parse_parameters
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.platform import open_platform
from springline.persistence.text.formatting import format_bytes, format_seconds
from springline.persistence.text.terminal import console, print, print_json, progress
from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.landing import parse_days
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import OperationRegistry, RegisteredOperation, load_operations
from springline.spark_jobs.runner import make_runner
from springline.spark_jobs.settings import JobSettings


def list_operations(as_json: Json = False) -> None:
    """List the registered operations with their declared lineage, producers before consumers."""
    registry = load_operations(JobSettings().operations)
    operations = list(registry.topological_order())
    if as_json:
        print_json([_declaration(registry, each) for each in operations])
    else:
        console().print(_table(operations))


def show(
    name: Annotated[str, typer.Argument(help="Operation name, as shown by `springline operation list`")],
    as_json: Json = False,
) -> None:
    """Show the declaration of an operation, its description and the version of its code."""
    registry = load_operations(JobSettings().operations)
    operation = registry.get(name)
    if as_json:
        print_json(_declaration(registry, operation))
        return
    console().print(_table([operation]))
    version = operation.version_error or f"Code version {operation.version}"
    print(f"{operation.doc}\n{version}; parameters: {', '.join(operation.parameters)}.")


def run(
    names: Annotated[list[str] | None, typer.Argument(help="Operations, in execution order")] = None,
    ds: Annotated[str, typer.Option(help="Date, such as 2013-01-05, or several as in `landing generate --days`")] = "",
    all_: Annotated[bool, typer.Option("--all", help="All operations of the workflow, in order")] = False,
    param: Annotated[list[str], typer.Option(help="Parameter as name=value; may be repeated")] = [],  # noqa: B006  (typer reads it once)
    strategy: Annotated[Strategy, typer.Option(help="When to persist the outputs")] = Strategy.ASYNC_AND_SYNC,
    as_json: Json = False,
) -> None:
    """Run operations; each reads the newest generations of its sources and commits a generation of its output."""
    params = parse_parameters(param)
    settings = JobSettings()
    with (
        progress("starting", quiet=as_json) as say,
        closing(make_runner(settings)) as runner,
        closing(open_platform(runner=runner, actor="command line")) as platform,
    ):
        operation_names = _select_names(runner.registry, names or [], all_)
        datasets = []
        for date in _dates(ds):
            for name in operation_names:
                say(f"running {' of '.join([name, *date.values()])}")
                datasets.append(materialize(platform, name, {**params, **date}, strategy=strategy))
                if not as_json:
                    _print_dataset(datasets[-1])
    if as_json:
        print_json([_dataset_fields(dataset) for dataset in datasets])


def _table(operations: Sequence[RegisteredOperation]) -> Table:
    table = Table("operation", "sources", "output", "", box=box.SIMPLE, padding=(0, 0), pad_edge=False)
    for operation in operations:
        sources = "\n".join([*operation.sources.values(), *operation.tables.values()]) or "(external)"
        table.add_row(operation.name, sources, operation.output, "\n".join(_flags(operation)))
    return table


def _flags(operation: RegisteredOperation) -> list[str]:
    flags = {
        "not idempotent": not operation.idempotent,
        "checkpoint": operation.checkpoint,
        "temporary": operation.temporary,
        "no version": bool(operation.version_error),
    }
    return [flag for flag, is_set in flags.items() if is_set]


def _select_names(registry: OperationRegistry, names: Sequence[str], all_operations: bool) -> list[str]:
    if all_operations == bool(names):
        raise JobUsageError("give operations to run, or --all")
    return [registry.get(name).name for name in names] or [operation.name for operation in registry.topological_order()]


def _dates(text: str) -> list[dict[str, str]]:
    return [{"ds": day.isoformat()} for day in parse_days(text)] if text else [{}]


def _print_dataset(dataset: Dataset) -> None:
    duration = format_seconds(dataset.compute_seconds or 0.0)
    print(f"{dataset.ref}: {dataset.rows or 0:,} rows, {format_bytes(dataset.bytes)}, in {duration}", flush=True)


def _dataset_fields(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": str(dataset.ref),
        "operation": dataset.call.name if dataset.call else None,
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "digest": dataset.digest,
        "seconds": dataset.compute_seconds,
        "sources": [str(source) for source in dataset.sources],
        "report": dataset.report,
    }


def _declaration(registry: OperationRegistry, operation: RegisteredOperation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "doc": operation.doc,
        "sources": dict(operation.sources),
        "tables": dict(operation.tables),
        "output": operation.output,
        "after": list(registry.edges[operation.name]),
        "outside": list(registry.external_sources(operation.name)),
        "idempotent": operation.idempotent,
        "checkpoint": operation.checkpoint,
        "temporary": operation.temporary,
        "options": dict(operation.options),
        "parameters": list(operation.parameters),
        "version": None if operation.version_error else operation.version,
        "version_error": operation.version_error,
    }
