"""The steps of `springline demo run`, in their order."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from rich.console import Console

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.rendering import dataset_table, say_risk, worst_moment
from springline.persistence.text.formatting import counted, say_seconds
from springline.services.airflow_api import AirflowApi
from springline.services.demo import streams
from springline.services.demo.progress import RunProgress
from springline.services.demo.terminal import say
from springline.services.demo.workflow import (
    DAG_ID,
    DAYS,
    FILES,
    MAINTENANCE,
    PERSISTER,
    STATES,
    await_queue,
    check_servers,
    prepared,
    run_days,
    standing,
)
from springline.services.registry import servers_to_start
from springline.services.servers.airflow import USER, password
from springline.services.supervisor import Supervisor
from springline.spark_jobs.landing import land
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings


def run(console: Console) -> None:
    """Start, land, run beside the streams, persist, show."""
    begun = time.monotonic()
    settings = prepared()
    steps = count(1)
    say(console, f"{next(steps)}  Servers")
    servers = servers_to_start(settings.servers, settings)
    supervisor = Supervisor(settings.home, say=lambda text: console.print(f"  {text}", highlight=False))
    supervisor.up(servers, settings.start_patience)
    address = next(server.address for server in servers if server.name == "airflow")

    say(console, f"{next(steps)}  Landing files")
    for landed in land(DAYS, JobSettings().landing_folder):
        how = "" if landed.fresh else " (was there)"
        console.print(f"  {landed.path}: {landed.rows:,} rows{how}", highlight=False)

    api = AirflowApi(address, USER, password(settings.home))
    api.await_dags((DAG_ID, PERSISTER, MAINTENANCE, *map(streams.dag_of, streams.JOBS)))
    running = streams.Streams(api, StreamSettings()) if "kafka" in settings.servers else None

    def beside(progress: RunProgress) -> None:
        check_servers(supervisor)
        if running is not None:
            running.step(progress)

    say(console, f"{next(steps)}  Workflow {DAG_ID}, {DAYS[0]} to {DAYS[-1]}, as a backfill")
    if running is not None:
        console.print(
            f"   Beside it the streams {', '.join(streams.JOBS)}, each under a DAG of its own", highlight=False
        )
    started_at = time.time()
    for dag_id in (PERSISTER, MAINTENANCE):  # they run from the start, unless somebody has paused them
        api.pause(dag_id, False)
    ran = run_days(api, DAYS, console, settings.home, beside)
    first = time.monotonic() - begun

    platform = open_platform(runner=NoRunner())
    try:
        say(console, f"{next(steps)}  Persisting what is still in the queue")
        await_queue(platform, console, lambda: check_servers(supervisor))
        say(console, f"{next(steps)}  What became of every dataset")
        show(platform, console, started_at)
        if running is not None:
            say(console, f"{next(steps)}  The streams take what is still before them")
            streams.await_all(running, console, lambda: check_servers(supervisor))
            streams.await_states(platform, console)
            say(console, f"{next(steps)}  What came of the streams")
            streams.show(console)
            console.print(f"  {say_lineage(platform)}", highlight=False)
    finally:
        platform.close()
    api.await_backfills(DAG_ID)
    console.print(
        f"\nThe runs took {say_seconds(ran)}, their results were there {say_seconds(first)} after the beginning; "
        f"everything took {say_seconds(time.monotonic() - begun)}.\n\n{say_where(address, settings.home)}",
        highlight=False,
    )
    if "hdfs" in settings.servers:
        console.print(f"  files in HDFS  http://127.0.0.1:{settings.hdfs_http_port}/", highlight=False)
    if running is not None:
        console.print("\nNext: `make demo-fault` wipes the cache and kills a stream; see how both come back.")
    console.print("`make stop` ends all.")


def say_lineage(platform: Platform) -> str:
    """How many datasets are files of the workflow, and how many are states of streams."""
    files, states = standing(platform, FILES), standing(platform, STATES)
    stages = {tuple(dataset.ref.path.split("/")[1:3]) for dataset in states}
    return (
        f"The catalog holds {counted(len(files), 'dataset')} of the workflow's files and {len(states)} of the streams, "
        f"from {counted(len(stages), 'stage')}: in one lineage."
    )


def say_where(address: str, home: Path) -> str:
    """Where to look, and with which login."""
    return (
        f"Look around, as user {USER} with password {password(home)}:\n"
        f"  workflow       {address}/dags/{DAG_ID}\n"
        f"  streams        {address}/plugin/springline-streams\n"
        f"  lineage        {address}/plugin/springline-lineage\n"
        f"Ask why:         .venv/bin/springline dataset explain etl/{DAYS[0]}/clean\n"
        f"Watch streams:   .venv/bin/springline stream list"
    )


def show(platform: Platform, console: Console, since: float) -> None:
    """The table of datasets, and the worst moment since the run began."""
    datasets = [dataset for day in DAYS for dataset in standing(platform, f"{FILES}{day}/")]
    lineage = platform.catalog.lineage_around([dataset.ref for dataset in datasets], down=False)
    states = {each.ref: each.status(recomputable=lineage.recomputable(each.ref)) for each in datasets}
    console.print(dataset_table(datasets, states))
    found = worst_moment(platform, since=since)
    if found is not None:
        at, risk = found
        moment = time.strftime("%H:%M:%S", time.localtime(at))
        console.print(f"\nHad the cache been lost at the worst moment ({moment}): {say_risk(risk)}", highlight=False)
