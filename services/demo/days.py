"""The steps of `springline demo run`, in order."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from rich.console import Console

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.rendering import dataset_table, format_risk, worst_moment
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_count, format_seconds
from springline.services.airflow_api import AirflowApi
from springline.services.demo import streams
from springline.services.demo.progress import RunProgress
from springline.services.demo.terminal import print_heading
from springline.services.demo.workflow import (
    DAG_ID,
    DAYS,
    FILES,
    MAINTENANCE,
    PERSISTER,
    STATES,
    await_queue,
    check_servers,
    newest_committed,
    prepare_settings,
    run_days,
)
from springline.services.registry import servers_to_start
from springline.services.servers.airflow import USER, password
from springline.services.supervisor import Supervisor
from springline.spark_jobs.landing import land, landing_of
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings


def run(console: Console) -> None:
    """Start the servers, write the landing files, run the workflow and the streams, persist, and show the result."""
    start = time.monotonic()
    settings = prepare_settings()
    steps = count(1)
    print_heading(console, f"{next(steps)}  Servers")
    servers = servers_to_start(settings.demo_servers, settings)
    supervisor = Supervisor(settings.home, say=lambda text: console.print(f"  {text}", highlight=False))
    supervisor.up(servers, settings.start_timeout)
    address = next(server.address for server in servers if server.name == "airflow")

    print_heading(console, f"{next(steps)}  Landing files")
    for landed in land(DAYS, landing_of(JobSettings(), Settings())):
        how = "" if landed.is_new else " (already existed)"
        console.print(f"  {landed.path}: {landed.rows:,} rows{how}", highlight=False)

    api = AirflowApi(address, USER, password(settings.home))
    api.await_dags((DAG_ID, PERSISTER, MAINTENANCE, *map(streams.dag_of, streams.JOBS)))
    demo_streams = streams.DemoStreams(api, StreamSettings()) if "kafka" in settings.demo_servers else None

    def on_poll(progress: RunProgress) -> None:
        check_servers(supervisor)
        if demo_streams is not None:
            demo_streams.step(progress)

    if demo_streams is not None:
        print_heading(console, f"{next(steps)}  Streams {', '.join(streams.JOBS)}, each supervised by a DAG")
        streams.await_start(demo_streams, console, lambda: check_servers(supervisor))
    print_heading(console, f"{next(steps)}  Workflow {DAG_ID}, {DAYS[0]} to {DAYS[-1]}, as a backfill")
    started_at = time.time()
    for dag_id in (PERSISTER, MAINTENANCE):  # they are unpaused by default, but a user may have paused them
        api.pause(dag_id, False)
    run_seconds = run_days(api, DAYS, console, settings.home, on_poll)
    result_seconds = time.monotonic() - start

    platform = open_platform(runner=NoRunner())
    try:
        print_heading(console, f"{next(steps)}  Persisting the rest of the queue")
        await_queue(platform, console, lambda: check_servers(supervisor))
        print_heading(console, f"{next(steps)}  Datasets")
        show(platform, console, started_at)
        if demo_streams is not None:
            print_heading(console, f"{next(steps)}  Waiting for the streams to catch up")
            streams.await_all(demo_streams, console, lambda: check_servers(supervisor))
            streams.await_states(platform, console)
            print_heading(console, f"{next(steps)}  Results of the streams")
            streams.show(console)
            console.print(f"  {format_lineage(platform)}", highlight=False)
    finally:
        platform.close()
    api.await_backfills(DAG_ID)
    console.print(
        f"\nThe DAG runs took {format_seconds(run_seconds)}, their results were available "
        f"{format_seconds(result_seconds)} after the start; "
        f"total time {format_seconds(time.monotonic() - start)}.\n\n{format_links(address, settings.home)}",
        highlight=False,
    )
    if "hdfs" in settings.demo_servers:
        console.print(f"  files in HDFS  http://127.0.0.1:{settings.hdfs_http_port}/", highlight=False)
    if demo_streams is not None:
        console.print("\nNext: `make demo-fault` wipes the cache and kills a stream, to show how both recover.")
    console.print("`make stop` stops everything.")


def format_lineage(platform: Platform) -> str:
    """Return a sentence with the number of datasets of the workflow and of states of streams."""
    files, states = newest_committed(platform, FILES), newest_committed(platform, STATES)
    stages = {tuple(dataset.ref.path.split("/")[1:3]) for dataset in states}
    return (
        f"The catalog contains {format_count(len(files), 'dataset')} of the workflow's "
        f"files and {len(states)} of the streams, "
        f"from {format_count(len(stages), 'stage')}, in one lineage graph."
    )


def format_links(address: str, home: Path) -> str:
    """Return the addresses of the pages, the login, and further commands."""
    return (
        f"Pages, for user {USER} with password {password(home)}:\n"
        f"  workflow       {address}/dags/{DAG_ID}\n"
        f"  streams        {address}/plugin/springline-streams\n"
        f"  lineage        {address}/plugin/springline-lineage\n"
        f"Explain:         .venv/bin/springline dataset explain etl/{DAYS[0]}/clean\n"
        f"Streams:         .venv/bin/springline stream list"
    )


def show(platform: Platform, console: Console, since: float) -> None:
    """Print the table of datasets, and the moment of highest risk since the run began."""
    datasets = [dataset for day in DAYS for dataset in newest_committed(platform, f"{FILES}{day}/")]
    lineage = platform.catalog.lineage_around([dataset.ref for dataset in datasets], down=False)
    states = {each.ref: each.status(recomputable=lineage.is_recomputable(each.ref)) for each in datasets}
    console.print(dataset_table(datasets, states))
    worst = worst_moment(platform, since=since)
    if worst is not None:
        worst_at, risk = worst
        moment = time.strftime("%H:%M:%S", time.localtime(worst_at))
        console.print(
            f"\nIf the cache had been lost at the worst time ({moment}): {format_risk(risk)}", highlight=False
        )
