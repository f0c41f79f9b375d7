"""The steps of `make demo`, in their order."""

from __future__ import annotations

import os
import sys
import time
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from persistence.model import Phase
from persistence.platform import Platform, open_platform
from persistence.runner import NoRunner
from persistence.telling import dataset_table, say_risk, worst_moment
from persistence.wording import say_seconds
from services.airflow_api import AirflowApi
from services.demo import stream
from services.demo.failure import told_failure
from services.demo.progress import RunProgress
from services.errors import ServiceError
from services.known import make_servers
from services.launching import tail
from services.servers.airflow import USER, password
from services.settings import ServiceSettings
from services.supervisor import Supervisor
from spark_jobs.landing import land
from spark_jobs.settings import JobSettings

DAG_ID = "etl_lineage"
DAYS = tuple(date(2013, 1, 5) + timedelta(days=n) for n in range(3))


def main() -> None:
    """Run the demo; an error is told with where to look, not with a traceback."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    try:
        run(console)
    except ServiceError as error:
        console.print(f"\n{error}", style="red", markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("\nStopped watching. The servers still run: `make stop` ends them.")
        sys.exit(130)


def run(console: Console) -> None:
    """Start, land, run, persist, show."""
    begun = time.monotonic()
    settings = ServiceSettings()
    if "airflow" not in settings.servers:
        raise ServiceError("SPRINGLINE_SERVERS names no airflow, and the demo runs its workflow there")
    os.environ["SPRINGLINE_HOME"] = str(settings.home)
    os.environ.setdefault("SPRINGLINE_KAFKA", f"127.0.0.1:{settings.kafka_port}")
    say(console, "1  Servers")
    servers = make_servers(settings.servers, settings)
    supervisor = Supervisor(settings.home, say=lambda text: console.print(f"  {text}", highlight=False))
    supervisor.up(servers, settings.start_patience)
    address = next(server.address for server in servers if server.name == "airflow")

    say(console, "2  Landing files")
    for landed in land(DAYS, JobSettings().landing_folder):
        how = "" if landed.fresh else " (was there)"
        console.print(f"  {landed.path}: {landed.manifest.rows:,} rows{how}", highlight=False)

    api = AirflowApi(address, USER, password(settings.home))
    api.await_dags((DAG_ID, "persister", "maintenance", stream.DAG_ID))
    replay = None
    if "kafka" in settings.servers:
        replay = stream.begin(api)
        what = "January 2013 is replayed meanwhile" if replay.needed else "January 2013 was replayed before"
        say(console, f"   Stream {stream.JOB}, under the DAG {stream.DAG_ID}: {what}")

    say(console, f"3  Workflow {DAG_ID}, {DAYS[0]} to {DAYS[-1]}, as a backfill")
    started_at = time.time()
    for dag_id in (DAG_ID, "persister"):
        api.pause(dag_id, False)
    api.end_backfills(DAG_ID)
    api.backfill(DAG_ID, DAYS[0], DAYS[-1], {}, runs_at_once=len(DAYS))
    ran = follow(api, console, supervisor, settings.home)

    api.pause("maintenance", False)

    say(console, "4  Persisting what is still in the queue")
    platform = open_platform(runner=NoRunner())
    try:
        await_queue(platform, console, supervisor)
        say(console, "5  What became of every dataset")
        show(platform, console, started_at)
    finally:
        platform.close()
    if replay is not None:
        say(console, f"6  What the stream {stream.JOB} has counted")
        stream.show(replay, console, lambda: check_servers(supervisor))
    console.print(
        f"\nThe runs took {say_seconds(ran)}, everything {say_seconds(time.monotonic() - begun)}.\n"
        f"Look around at {address}/dags/{DAG_ID} (user {USER}, password {password(settings.home)}).\n"
        f"Ask why with `.venv/bin/python -m persistence explain etl/{DAYS[0]}/clean`; watch the stream with "
        f"`.venv/bin/python -m spark_jobs streams`; `make stop` ends all.",
        highlight=False,
    )
    if "hdfs" in settings.servers:
        console.print(f"The files in HDFS are at http://127.0.0.1:{settings.hdfs_http_port}/.", highlight=False)


def say(console: Console, title: str) -> None:
    """A heading."""
    console.print(f"\n{title}", style="bold", highlight=False)


def follow(api: AirflowApi, console: Console, supervisor: Supervisor, home: Path, patience: float = 1800) -> float:
    """Watch the runs until all have ended; raises `ServiceError`, naming task and log, if one failed."""
    begun = time.monotonic()
    with RunProgress(console) as progress:
        while True:
            check_servers(supervisor)
            runs = api.runs(DAG_ID, DAYS[0], DAYS[-1])
            tasks = {run_id: api.tasks(DAG_ID, run_id) for run_id in runs}
            for run_id in sorted(runs):
                progress.show(tasks[run_id][0].day if tasks[run_id] else run_id, tasks[run_id])
            if len(runs) == len(DAYS) and all(state in ("success", "failed") for state in runs.values()):
                break
            if time.monotonic() - begun > patience:
                raise ServiceError(f"the runs have not ended after {say_seconds(patience)}: {runs}")
            time.sleep(1)
    if "failed" in runs.values():
        raise ServiceError(told_failure(DAG_ID, (task for each in tasks.values() for task in each), home))
    return time.monotonic() - begun


def check_servers(supervisor: Supervisor) -> None:
    """Raise `ServiceError`, with the ends of the logs, if a server has ended."""
    for name in supervisor.recorded():
        state = supervisor.state(name)
        if not state.running:
            tails = "\n".join(tail(log) for log in supervisor.logs(name))
            raise ServiceError(f"{name} is {state.words}\n{tails}")


def await_queue(platform: Platform, console: Console, supervisor: Supervisor, patience: float = 600) -> None:
    """Wait until nothing wants persisting any more."""
    begun = time.monotonic()
    before = -1
    while depth := platform.claims.depth():
        check_servers(supervisor)
        if depth != before:
            console.print(f"  {depth} to go", highlight=False)
            before = depth
        if time.monotonic() - begun > patience:
            raise ServiceError(
                f"{depth} datasets still want persisting after {say_seconds(patience)}:"
                " `python -m persistence status` tells which; the persister's log is in Airflow"
            )
        time.sleep(0.5)
    console.print("  the queue is empty", highlight=False)


def show(platform: Platform, console: Console, since: float) -> None:
    """The table of datasets, and the worst moment since the run began."""
    datasets = [
        dataset
        for day in DAYS
        for dataset in platform.catalog.find(prefix=f"etl/{day}/", phase=Phase.COMMITTED, superseded=False)
    ]
    lineage = platform.catalog.lineage_around([dataset.ref for dataset in datasets], down=False)
    states = {each.ref: each.status(recomputable=lineage.recomputable(each.ref)) for each in datasets}
    console.print(dataset_table(datasets, states))
    found = worst_moment(platform, since=since)
    if found is not None:
        at, risk = found
        moment = time.strftime("%H:%M:%S", time.localtime(at))
        console.print(f"\nHad the cache been lost at the worst moment ({moment}): {say_risk(risk)}", highlight=False)


if __name__ == "__main__":
    main()
