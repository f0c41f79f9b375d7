"""Commands that show the results of a job: the newest in Kafka, and by SQL the stored ones."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import open_platform
from springline.persistence.text.terminal import print, print_json, progress
from springline.persistence.text.visible_text import dump_json
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import job_named, opened_log, queryable_job_named
from springline.spark_jobs.streaming.commands.tables import print_answer
from springline.spark_jobs.streaming.runtime.newest_results import newest_rows
from springline.spark_jobs.streaming.windows.sink.query import query_results


def results(
    job: JobName,
    query: Annotated[str, typer.Option(help="Only results of this query")] = "",
    last: Annotated[int, typer.Option("-n", min=1, help="Maximum number of rows, over all partitions")] = 10,
    as_json: Json = False,
) -> None:
    """Print the newest results, newest last: each as a line of JSON, or with --json all as one array."""
    declared, _ = job_named(job)
    with opened_log() as log:
        rows = list(newest_rows(log, declared.results, last, query))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(dump_json(row))


def sql(
    job: JobName,
    query: Annotated[str, typer.Argument(metavar="SQL", help="SELECT … FROM a query's name")],
    as_json: Json = False,
) -> None:
    """Query the results stored as Parquet with DuckDB SQL; each query of the job is a table."""
    declared, _ = queryable_job_named(job)
    with (
        progress(f"querying the results of {job}", quiet=as_json),
        closing(open_platform(runner=NoRunner(), actor="command line")) as platform,
    ):
        answer = query_results(platform, declared, query)
    print_answer(answer, as_json)
