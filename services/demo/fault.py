"""The steps of `make demo-fault`: something to lose, the fault, how the platform heals by itself, a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count

from rich.console import Console

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.dataset import Ref
from springline.persistence.platform import Platform, open_platform
from springline.persistence.text.formatting import counted, say_bytes
from springline.services.airflow_api import AirflowApi, TaskState
from springline.services.demo import streams
from springline.services.demo.fault_injection import group_of, lose, wipe
from springline.services.demo.progress import RunProgress
from springline.services.demo.recovery_report import Damage, Healing, healing_table
from springline.services.demo.terminal import say
from springline.services.demo.wait import comes_true
from springline.services.demo.workflow import (
    DAG_ID,
    DAYS,
    FILES,
    MAINTENANCE,
    PERSISTER,
    await_queue,
    check_servers,
    prepared,
    run_days,
    standing,
)
from springline.services.errors import ServiceError
from springline.services.registry import servers_to_start
from springline.services.servers.airflow import USER, password
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.application.supervision import end
from springline.spark_jobs.streaming.examples.datagen import Source
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.settings import StreamSettings

DAY = DAYS[0]
LINES = streams.Feed(streams.LINES, Source.LINES, 12_000, 50, 800.0, again=True)
PATIENCE = 300.0  # seconds in which something has to heal further
_LOOK_SECONDS = 0.5
_BEGIN_SECONDS = 180.0  # in which the stream begins to read
Check = Callable[[], None]


def run(console: Console) -> None:
    """Make something that can be lost, lose it, watch it come back, show."""
    settings = prepared()
    supervisor = Supervisor(settings.home)
    servers = servers_to_start(settings.servers, settings)
    check_up(supervisor, [server.name for server in servers])
    address = next(server.address for server in servers if server.name == "airflow")
    group_of(_look())  # raises where there is nothing to kill
    platform = open_platform(runner=NoRunner())
    try:
        if not standing(platform, f"{FILES}{DAY}/"):
            raise ServiceError(f"there is nothing of {DAY} to lose: run `make demo` first")
        api = AirflowApi(address, USER, password(settings.home))
        healing = _through(console, platform, api, lambda: check_servers(supervisor))
    finally:
        platform.close()
    console.print(healing_table(healing))
    console.print(
        f"See it in Airflow, as user {USER} with password {password(settings.home)}:\n"
        f"  what was made again    {address}/plugin/springline-lineage\n"
        f"  who made it again      {address}/dags/{MAINTENANCE}\n"
        f"  the restarted stream   {address}/plugin/springline-streams\n"
        f"  who restarted it       {address}/dags/{streams.dag_of(streams.WORDS)}\n"
        f"What happened to one:    .venv/bin/springline dataset explain {FILES}{DAY}/clean",
        highlight=False,
    )


def check_up(supervisor: Supervisor, names: Sequence[str]) -> None:
    """Raise `ServiceError` if a server of the demo does not run, or its streams have no Kafka among them."""
    if missing := [name for name in ("airflow", "kafka") if name not in names]:
        raise ServiceError(f"SPRINGLINE_SERVERS names no {missing[0]}, and the demo's streams need it")
    for name in names:
        state = supervisor.state(name)
        if not state.running:
            raise ServiceError(f"{name} is {state.words}: run `make demo` first, then `make demo-fault`")


def hold_persister(api: AirflowApi, check: Check, patience: float = 300) -> None:
    """Pause the persister, and wait until it has put down what it is at."""
    api.pause(PERSISTER, True)
    tasks: list[TaskState] = []

    def idle() -> bool:
        nonlocal tasks
        check()
        tasks = [task for run_id in api.living(PERSISTER) for task in api.tasks(PERSISTER, run_id)]
        return not any(task.state in ("queued", "running") for task in tasks)

    if not comes_true(idle, patience, lambda: tasks):
        states = ", ".join(f"{task.task_id} is {task.state}" for task in tasks)
        raise ServiceError(f"the persister does not come to rest; unchanged for {patience:g} s: {states}")


def _through(console: Console, platform: Platform, api: AirflowApi, check: Check) -> list[Healing]:
    """All steps but the summary."""
    steps = count(1)
    say(console, f"{next(steps)}  What is going to happen")
    console.print(
        f"  {DAY} of the workflow runs anew, the persister being paused: its newest datasets are in the cache alone.\n"
        "  Then the whole cache is deleted, and the application of the stream words is killed with -9 in the midst of\n"
        "  its work, and its states deleted. The DAGs maintenance and stream_words see to the rest.",
        highlight=False,
    )
    try:
        say(console, f"{next(steps)}  Something to lose")
        hold_persister(api, check)
        console.print("  the persister is paused", highlight=False)
        run_days(api, (DAY,), console, platform.settings.home, lambda _: check())
        exposed = [each for each in standing(platform, FILES) if each.in_cache and not each.persisted]
        size = say_bytes(sum(each.bytes for each in exposed))
        console.print(f"  {counted(len(exposed), 'dataset')} ({size}) are in the cache alone", highlight=False)
        say(console, f"{next(steps)}  The fault, and how it heals")
        healing = _strike(console, platform, api, [each.ref for each in exposed], check)
    finally:
        api.pause(PERSISTER, False)
    say(console, f"{next(steps)}  The persister goes on")
    await_queue(platform, console, check)
    api.await_backfills(DAG_ID)
    say(console, f"{next(steps)}  What was lost, and how it came back")
    return healing


def _strike(
    console: Console, platform: Platform, api: AirflowApi, exposed: Sequence[Ref], check: Check
) -> list[Healing]:
    """Feed the stream, harm it and the cache, and watch until all is healed."""
    settings = StreamSettings()
    with closing(Kafka(settings.cluster)) as log:
        damage = Damage(settings, log, platform.catalog, exposed)
        feeding = streams.Feeding(settings, (LINES,))
        before = _look()

        def at_work() -> bool:
            check()
            return streams.rows_of(_look()) > streams.rows_of(before)

        if not comes_true(at_work, _BEGIN_SECONDS):
            raise ServiceError(f"the stream {streams.WORDS} reads nothing, after {_BEGIN_SECONDS:g} s")
        seen = _look()
        group = group_of(seen)
        damage.begin()
        end(seen, settings.folder(streams.WORDS))
        lose(settings.state_folder / streams.WORDS)
        copies = wipe(platform.cache)
        api.pause(MAINTENANCE, False)
        api.trigger(MAINTENANCE, {})  # it comes by every five minutes: not to wait for that
        console.print(
            f"  killed process group {group}, {seen.tracking['in_flight']:,} lines were in flight; deleted its states\n"
            f"  deleted the cache, {copies} copies; called maintenance",
            highlight=False,
        )
        with RunProgress(console) as progress:
            while True:
                check()
                feeding.check()
                for name, words in damage.look(fed=not feeding.going_on).items():
                    progress.tell(name, words)
                if damage.healed:
                    return damage.healing()
                damage.give_up(PATIENCE)
                time.sleep(_LOOK_SECONDS)


def _look() -> Seen:
    return look(streams.WORDS, StreamSettings().folder(streams.WORDS), time.time())
