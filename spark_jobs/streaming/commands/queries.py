"""Commands for the queries of a running or stopped job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from springline.persistence.model.codec import to_json_value
from springline.persistence.text.terminal import print, print_json, print_result, progress
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import opened_log, opened_platform, queryable_job_named
from springline.spark_jobs.streaming.commands.tables import print_answer, print_rows
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner
from springline.spark_jobs.streaming.windows.adhoc_query import ask
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.registry_file import change_registry, read_registry

QueryName = Annotated[str, typer.Argument(help="The query's name")]
Sql = Annotated[str, typer.Argument(help="SELECT … GROUP BY … WINDOWING 60 s")]


def queries(job: JobName, as_json: Json = False) -> None:
    """List a job's queries."""
    declared, folder = queryable_job_named(job)
    registry = read_registry(folder) or declared.registry()
    if as_json:
        print_json(to_json_value(registry.registered))
        return
    print_rows(
        ("query", "since version", "SQL"), ((query.name, query.since, query.sql) for query in registry.registered)
    )


def register(job: JobName, name: QueryName, sql: Sql, as_json: Json = False) -> None:
    """Register a query; its first result is for the first window that begins after now."""
    _change(job, lambda registry: registry.register(name, sql), name, "registered", as_json)


def alter(job: JobName, name: QueryName, sql: Sql, as_json: Json = False) -> None:
    """Replace the SQL of a query."""
    _change(job, lambda registry: registry.change(name, sql), name, "changed", as_json)


def cancel(job: JobName, name: QueryName, as_json: Json = False) -> None:
    """Cancel a query."""
    _change(job, lambda registry: registry.cancel(name), name, "cancelled", as_json)


def query(
    job: JobName,
    sql: Annotated[str, typer.Argument(help="SELECT … GROUP BY …; default: list what can be queried")] = "",
    as_json: Json = False,
) -> None:
    """Run an ad hoc query on the slices that the job's queries keep now; without SQL, list what can be queried."""
    declared, folder = queryable_job_named(job)
    registry = read_registry(folder) or declared.registry()
    if sql:
        with progress(f"querying the slices of {job}", quiet=as_json):
            answer = ask(declared, registry, sql, folder, opened_log, opened_platform).rows
        print_answer(answer, as_json)
        return
    askable = AdHocPlanner(registry).askable()
    if as_json:
        print_json([asdict(each) for each in askable])
        return
    print_rows(
        ("stream", "GROUP BY keys", "aggregates", "rows", "windows", "queries"),
        (
            (
                each.stream, ", ".join(each.keys), ", ".join(each.aggregates), each.where or "all",
                f"n × {each.seconds:g} s", ", ".join(each.queries),
            )
            for each in askable
        ),
    )  # fmt: skip
    if not askable:
        print("There are no slices: register a query first.")


def _change(job: str, make: Callable[[QueryRegistry], QueryRegistry], name: str, change: str, as_json: bool) -> None:
    declared, folder = queryable_job_named(job)
    changed = change_registry(folder, lambda current: make(declared.registry() if current is None else current))
    result = {"job": job, "query": name, "change": change, "version": changed.version}
    print_result(as_json, result, f"{job}: {name} is {change}; version {changed.version} of its queries")
