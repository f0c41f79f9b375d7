"""The stream of the demo: January's flights replayed to Kafka beside the workflow, and some of what comes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from services.airflow_api import AirflowApi
from services.errors import ServiceError
from spark_jobs.streaming.inputs.feeding import Source, messages_of, send
from spark_jobs.streaming.jobs import windows_job_of
from spark_jobs.streaming.kafka import Kafka
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.tailing import newest
from spark_jobs.streaming.watching import look
from spark_jobs.streaming.windows.job import WindowsJob

JOB = "flights"
DAG_ID = f"stream_{JOB}"
_ROWS = 27_000  # January
_SPEED = 12 * 3600.0  # seconds of 2013 a second: a minute for the month
_SHOWN = 6  # rows of results
_UNITS = 2


class Replay:
    """Sends the flights while the demo goes on, unless a demo before has sent them; `end` waits for it."""

    def __init__(self, settings: StreamSettings, job: WindowsJob) -> None:
        self._settings = settings
        self._job = job
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._send, name="replay", daemon=True)
        with closing(Kafka(settings.cluster)) as log:
            log.create({job.topic: _UNITS})
            self.needed = not any(extent.high for extent in log.extents(job.topic).values())
        if self.needed:
            self._thread.start()

    def end(self) -> None:
        """Return when all flights are sent; raises what went wrong."""
        if self.needed:
            self._thread.join()
        if self._error:
            raise self._error

    def _send(self) -> None:
        try:
            with closing(Kafka(self._settings.cluster)) as log:
                send(log, self._job.topic, messages_of(Source.FLIGHTS, rows=_ROWS, size=50, speed=_SPEED))
        except Exception as error:
            self._error = error


def begin(api: AirflowApi) -> Replay:
    """Start the stream under its DAG, unless a run of it lives, and the replay."""
    settings = StreamSettings()
    job = windows_job_of(settings.declarations, JOB)
    replay = Replay(settings, job)
    api.pause(DAG_ID, False)
    if not settings.folder(JOB).runs():
        api.trigger(DAG_ID, {})
    return replay


def show(replay: Replay, console: Console, check: Callable[[], None], patience: float = 180) -> None:
    """Wait until the stream has caught up, then show its state and its newest results."""
    replay.end()
    settings = StreamSettings()
    job, folder = windows_job_of(settings.declarations, JOB), settings.folder(JOB)
    until = time.monotonic() + patience
    while not _caught_up(seen := look(JOB, folder, time.time()).stages):
        check()
        if time.monotonic() > until:
            raise ServiceError(f"the stream {JOB} has not caught up after {patience:g} s; its log: {folder.log_file}")
        time.sleep(0.5)
    counts = {name: told["counts"] for name, told in seen.items()}
    console.print(
        f"  {counts['map'].get('rows', 0):,} flights read, {counts['reduce'].get('results', 0):,} results, "
        f"{counts['map'].get('late', 0):,} late, {counts['map'].get('dead', 0):,} that could not be used",
        highlight=False,
    )
    with closing(Kafka(settings.cluster)) as log:
        console.print(_table(newest(log, job.results, _SHOWN, next(iter(job.queries)))))


def _caught_up(stages: Mapping[str, dict[str, Any]]) -> bool:
    """Whether all flights are read, and what they make is merged."""
    if set(stages) != {"map", "reduce"}:
        return False
    return stages["map"]["counts"].get("rows", 0) > 0 and all(told["behind"] == 0 for told in stages.values())


def _table(rows: list[dict[str, Any]]) -> Table:
    names = list(rows[0]) if rows else []
    table = Table(*names, box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for row in rows:
        table.add_row(*(_said(value) for value in row.values()))
    return table


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = str(value)
    return text[:16].replace("T", " ") if text[10:11] == "T" else text
