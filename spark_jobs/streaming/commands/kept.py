"""The command that asks the kept results of a job by SQL."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from persistence.platform import open_platform
from persistence.runner import NoRunner
from spark_jobs.streaming.commands.arguments import JobName, Json, job_named
from spark_jobs.streaming.kept import ask_kept


def sql(
    job: JobName,
    query: Annotated[str, typer.Argument(metavar="SQL", help="SELECT … FROM a query's name")],
    as_json: Json = False,
) -> None:
    """Ask the results that were kept as parquet, by DuckDB's SQL: each query of the job is a table."""
    declared, _ = job_named(job)
    with closing(open_platform(runner=NoRunner(), who="command line")) as platform:
        found = ask_kept(platform, declared, query)
    rows = found.to_pylist()
    if as_json:
        print(json.dumps(rows, default=str, indent=2))
        return
    table = Table(*found.column_names, box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)
