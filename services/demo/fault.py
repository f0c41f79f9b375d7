"""The steps of `make demo-fault`: create unpersisted data, inject the fault, watch the recovery, show a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count

from rich.console import Console

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.dataset import Ref
from springline.persistence.platform import Platform, open_platform
from springline.persistence.text.formatting import format_bytes, format_count
from springline.services.airflow_api import AirflowApi, TaskState
from springline.services.demo import streams
from springline.services.demo.fault_injection import delete_folder, group_of, wipe_cache
from springline.services.demo.progress import RunProgress
from springline.services.demo.recovery_report import RecoveredItem, RecoveryMonitor, recovery_table
from springline.services.demo.terminal import print_heading
from springline.services.demo.wait import wait_until
from springline.services.demo.workflow import (
    DAG_ID,
    DAYS,
    FILES,
    MAINTENANCE,
    PERSISTER,
    await_queue,
    check_servers,
    newest_committed,
    prepare_settings,
    run_days,
)
from springline.services.errors import ServiceError
from springline.services.registry import servers_to_start
from springline.services.servers.airflow import USER, password
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.application.supervision import kill_application
from springline.spark_jobs.streaming.examples.datagen import SampleSource
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.settings import StreamSettings

DAY = DAYS[0]
LINES = streams.DemoFeed(streams.LINES, SampleSource.LINES, 12_000, 50, 800.0, always_send=True)
PATIENCE = 300.0  # maximum seconds without progress of the recovery
_POLL_SECONDS = 0.5
_START_TIMEOUT_SECONDS = 180.0  # until the stream begins to read
Check = Callable[[], None]


def run(console: Console) -> None:
    """Create data that only the cache holds, inject the fault, watch the recovery, and show a summary."""
    settings = prepare_settings()
    supervisor = Supervisor(settings.home)
    servers = servers_to_start(settings.demo_servers, settings)
    check_running(supervisor, [server.name for server in servers])
    address = next(server.address for server in servers if server.name == "airflow")
    group_of(_words_status())  # raises if there is no application to kill
    platform = open_platform(runner=NoRunner())
    try:
        if not newest_committed(platform, f"{FILES}{DAY}/"):
            raise ServiceError(f"there are no datasets of {DAY}: run `make demo` first")
        api = AirflowApi(address, USER, password(settings.home))
        recovered = _run_steps(console, platform, api, lambda: check_servers(supervisor))
    finally:
        platform.close()
    console.print(recovery_table(recovered))
    console.print(
        f"See it in Airflow, as user {USER} with password {password(settings.home)}:\n"
        f"  recomputed datasets    {address}/plugin/springline-lineage\n"
        f"  recovery DAG           {address}/dags/{MAINTENANCE}\n"
        f"  restarted stream       {address}/plugin/springline-streams\n"
        f"  its supervising DAG    {address}/dags/{streams.dag_of(streams.WORD_COUNT)}\n"
        f"History of a dataset:    .venv/bin/springline dataset explain {FILES}{DAY}/clean",
        highlight=False,
    )


def check_running(supervisor: Supervisor, names: Sequence[str]) -> None:
    """Raise `ServiceError` if a server of the demo is not running, or if Airflow or Kafka is not among them."""
    if missing := [name for name in ("airflow", "kafka") if name not in names]:
        raise ServiceError(f"SPRINGLINE_DEMO_SERVERS lacks {missing[0]}, which the demo's streams need")
    for name in names:
        status = supervisor.status(name)
        if not status.is_running:
            raise ServiceError(f"{name} is {status.state}: run `make demo` first, then `make demo-fault`")


def pause_persister(api: AirflowApi, check: Check, patience: float = 300) -> None:
    """Pause the persister, and wait until its running tasks have ended."""
    api.pause(PERSISTER, True)
    tasks: list[TaskState] = []

    def is_idle() -> bool:
        nonlocal tasks
        check()
        tasks = [task for run_id in api.active_runs(PERSISTER) for task in api.tasks(PERSISTER, run_id)]
        return not any(task.state in ("queued", "running") for task in tasks)

    if not wait_until(is_idle, patience, lambda: tasks):
        states = ", ".join(f"{task.task_id} is {task.state}" for task in tasks)
        raise ServiceError(f"the persister's tasks have not finished; no change for {patience:g} s: {states}")


def _run_steps(console: Console, platform: Platform, api: AirflowApi, check: Check) -> list[RecoveredItem]:
    """Run all steps except the summary."""
    steps = count(1)
    print_heading(console, f"{next(steps)}  Plan")
    console.print(
        f"  {DAY} of the workflow is re-run with the persister paused, so its newest datasets are only in the cache.\n"
        "  Then the cache is deleted, the application of the stream words is killed with `kill -9` while it processes\n"
        "  records, and its states are deleted. The DAGs maintenance and stream_words recover everything.",
        highlight=False,
    )
    try:
        print_heading(console, f"{next(steps)}  Preparation")
        pause_persister(api, check)
        console.print("  the persister is paused", highlight=False)
        run_days(api, (DAY,), console, platform.settings.home, lambda _: check())
        exposed = [each for each in newest_committed(platform, FILES) if each.in_cache and not each.persisted]
        size = format_bytes(sum(each.bytes for each in exposed))
        console.print(f"  {format_count(len(exposed), 'dataset')} ({size}) are only in the cache", highlight=False)
        print_heading(console, f"{next(steps)}  Fault and recovery")
        recovered = _inject_fault(console, platform, api, [each.ref for each in exposed], check)
    finally:
        api.pause(PERSISTER, False)
    print_heading(console, f"{next(steps)}  The persister resumes")
    await_queue(platform, console, check)
    api.await_backfills(DAG_ID)
    print_heading(console, f"{next(steps)}  Result")
    return recovered


def _inject_fault(
    console: Console, platform: Platform, api: AirflowApi, exposed: Sequence[Ref], check: Check
) -> list[RecoveredItem]:
    """Feed the stream, kill it, wipe the cache, and wait until everything has recovered."""
    settings = StreamSettings()
    with closing(Kafka(settings.cluster)) as log:
        monitor = RecoveryMonitor(settings, log, platform.catalog, exposed)
        feeder = streams.DemoFeeder(settings, (LINES,))
        before = _words_status()

        def is_at_work() -> bool:
            check()
            return streams.rows_of(_words_status()) > streams.rows_of(before)

        if not wait_until(is_at_work, _START_TIMEOUT_SECONDS):
            raise ServiceError(
                f"the stream {streams.WORD_COUNT} has not read anything after {_START_TIMEOUT_SECONDS:g} s"
            )
        stream_status = _words_status()
        group = group_of(stream_status)
        monitor.begin()
        kill_application(stream_status, settings.folder(streams.WORD_COUNT))
        delete_folder(settings.state_folder / streams.WORD_COUNT)
        copies = wipe_cache(platform.cache)
        api.pause(MAINTENANCE, False)
        api.trigger(MAINTENANCE, {})  # it is scheduled every five minutes; do not wait for that
        console.print(
            f"  killed process group {group}, {stream_status.tracking['in_flight']:,} "
            f"lines were in flight; deleted its states\n"
            f"  deleted the cache, {copies} copies; triggered the DAG maintenance",
            highlight=False,
        )
        with RunProgress(console) as progress:
            while True:
                check()
                feeder.check()
                for name, summary in monitor.poll(all_sent=not feeder.is_sending).items():
                    progress.show_text(name, summary)
                if monitor.is_healed:
                    return monitor.recovered_items()
                monitor.check_timeout(PATIENCE)
                time.sleep(_POLL_SECONDS)


def _words_status() -> JobStatus:
    return read_status(streams.WORD_COUNT, StreamSettings().folder(streams.WORD_COUNT), time.time())
