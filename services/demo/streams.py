"""The streams of the demo: each runs under its DAG, is fed during the demo, and is shown after it has caught up."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from springline.persistence.platform import Platform
from springline.persistence.text.tables import plain_table
from springline.services.airflow_api import AirflowApi
from springline.services.demo.outcome import (
    StreamOutcome,
    counts_of,
    join_outcome,
    streams_table,
    tracked_outcome,
    windows_outcome,
)
from springline.services.demo.progress import RunProgress
from springline.services.demo.wait import wait_until
from springline.services.demo.workflow import STATES, newest_committed
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.examples.datagen import SampleSource, messages_of, send
from springline.spark_jobs.streaming.join.rebalance import read_explanation
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.newest_results import newest_rows
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of

FLIGHTS, WORD_COUNT, SHIPPING = "flights", "words", "shipping"
JOBS = {FLIGHTS: "map", WORD_COUNT: "split", SHIPPING: "route"}  # the jobs and their first stages
LINES = "lines"  # the source topic of the job `words`
_PARTITIONS = 2
_RESULT_ROWS = 3  # rows of results to show
_QUIET_SECONDS = 3.0  # without lag until a stream has caught up: rounds run every second, heartbeats twice a second


@dataclass(frozen=True)
class DemoFeed:
    """Rows of a sample source for a topic: number of rows, rows per message, and speed (see `messages_of`).

    They are sent by every demo if `always_send`, otherwise only if the topic is empty.
    """

    topic: str
    source: SampleSource
    rows: int
    size: int
    speed: float
    always_send: bool = False


FEEDS = (
    DemoFeed("flights", SampleSource.FLIGHTS, 27_000, 50, 12 * 3600.0),  # January in a minute
    DemoFeed(LINES, SampleSource.LINES, 30_000, 50, 500.0, always_send=True),
    DemoFeed("orders", SampleSource.ORDERS, 20_000, 100, 400.0),
    DemoFeed("items", SampleSource.ITEMS, 40_000, 100, 800.0),
)


class DemoFeeder:
    """Sends the input of the streams in background threads, which start at once; see `is_sending` and `check`."""

    def __init__(self, settings: StreamSettings, feeds: Sequence[DemoFeed] = FEEDS) -> None:
        self._settings = settings
        self._errors: list[Exception] = []
        with closing(Kafka(settings.cluster)) as log:
            log.create({feed.topic: _PARTITIONS for feed in feeds})
            selected_feeds = [feed for feed in feeds if feed.always_send or not _has_messages(log, feed.topic)]
        self._threads = [threading.Thread(target=self._send, args=(feed,), daemon=True) for feed in selected_feeds]
        for thread in self._threads:
            thread.start()

    @property
    def is_sending(self) -> bool:
        """Whether messages are still being sent."""
        return any(thread.is_alive() for thread in self._threads)

    def check(self) -> None:
        """Raise the first error of the threads, if any."""
        if self._errors:
            raise self._errors[0]

    def _send(self, feed: DemoFeed) -> None:
        try:
            with closing(Kafka(self._settings.cluster)) as log:
                send(log, feed.topic, messages_of(feed.source, rows=feed.rows, size=feed.size, speed=feed.speed))
        except Exception as error:
            self._errors.append(error)


def dag_of(job: str) -> str:
    """Return the id of the DAG that supervises a job."""
    return f"stream_{job}"


def drop_stale_states(settings: StreamSettings, jobs: Iterable[str] = JOBS) -> None:
    """Delete in-memory states of jobs without a folder in this home: the home was deleted, and they are of another
    Kafka.

    If that is wrong, nothing is lost, because missing states are rebuilt.
    """
    for job in jobs:
        if not settings.folder(job).path.exists():
            shutil.rmtree(settings.state_folder / job, ignore_errors=True)


class DemoStreams:
    """The streams under their DAGs."""

    def __init__(self, api: AirflowApi, settings: StreamSettings) -> None:
        self._api = api
        self._settings = settings
        self._started_jobs: list[str] = []
        drop_stale_states(settings)
        self.feeder = DemoFeeder(settings)

    def step(self, progress: RunProgress) -> None:
        """Start the streams if they are not, and show the progress of each; raises errors of the feeder."""
        self.feeder.check()
        while len(self._started_jobs) < len(JOBS):
            self._start(list(JOBS)[len(self._started_jobs)])
        show_progress(progress, self.statuses())

    @property
    def folder(self) -> Path:
        """The folder in which each job has a folder with its log."""
        return self._settings.jobs_folder

    def lagging_streams(self) -> list[JobStatus]:
        """Return the status of the streams that have not caught up, from their last heartbeats."""
        return [stream_status for stream_status in self.statuses() if not has_caught_up(stream_status)]

    def statuses(self) -> list[JobStatus]:
        """Return the status of every stream, from its last heartbeat."""
        return self._statuses(JOBS)

    def _start(self, job: str) -> None:
        """Trigger the DAG of a stream, unless it has an active run."""
        self._api.pause(dag_of(job), False)
        (stream_status,) = self._statuses([job])
        if needs_run(stream_status, tuple(self._api.active_runs(dag_of(job)).values())):
            self._api.trigger(dag_of(job), {})
        self._started_jobs.append(job)

    def _statuses(self, jobs: Iterable[str]) -> list[JobStatus]:
        return [read_status(job, self._settings.folder(job), time.time()) for job in jobs]


def needs_run(stream_status: JobStatus, active_states: Collection[str]) -> bool:
    """Return whether a job needs another DAG run, given the states of its active runs.

    The run of a stopped stream is about to end; the next run is queued until then.
    """
    return not active_states or (stream_status.state == "stopped" and "queued" not in active_states)


def show_progress(progress: RunProgress, statuses: Iterable[JobStatus]) -> None:
    """Show the progress of each stream."""
    for stream_status in statuses:
        progress.show_text(f"stream {stream_status.job}", _progress_text(stream_status))


def await_start(streams: DemoStreams, console: Console, check: Callable[[], None], patience: float = 120) -> None:
    """Wait until all streams run, and show how far each is; `check` may raise.

    A start occupies two cores, and beside the workflow it would take three times as long. After `patience` seconds
    without progress the wait ends, since the workflow does not need the streams.
    """
    with RunProgress(console) as progress:

        def is_ready() -> bool:
            check()
            streams.step(progress)
            return all(stream_status.is_ready for stream_status in streams.statuses())

        def phases() -> list[tuple[str, str]]:
            return [(each.state, each.phase) for each in streams.statuses()]

        if not wait_until(is_ready, patience, phases):
            late = ", ".join(f"{each.job} is {format_state(each)}" for each in streams.statuses() if not each.is_ready)
            console.print(f"  {late}: the workflow begins without waiting longer", highlight=False)


def await_all(streams: DemoStreams, console: Console, check: Callable[[], None], patience: float = 300) -> None:
    """Wait until the streams have processed all that is sent, and show their progress; `check` may raise.

    Raises `ServiceError` after `patience` seconds without progress.
    """
    busy_at = time.time()
    lagging: list[JobStatus] = []
    with RunProgress(console) as progress:

        def is_quiet() -> bool:
            nonlocal busy_at, lagging
            check()
            streams.step(progress)
            lagging = streams.lagging_streams()
            if lagging or streams.feeder.is_sending:
                busy_at = time.time()
            return time.time() - busy_at >= _QUIET_SECONDS

        if not wait_until(is_quiet, patience, lambda: [_progress_of(stream_status) for stream_status in lagging]):
            lagging_jobs = ", ".join(
                f"{each.job} is {each.state} {each.error or each.phase}".rstrip() for each in lagging
            )
            raise ServiceError(
                f"streams have not caught up, and made no progress for {patience:g} "
                f"s: {lagging_jobs}; see their logs in "
                f"{streams.folder}"
            )


def _progress_of(stream_status: JobStatus) -> tuple[Any, ...]:
    """Return values that change while a stream makes progress; finished rounds do not count, as they may be empty."""
    counts = {
        stage: (stage_status["counts"], stage_status["lag"]) for stage, stage_status in stream_status.stages.items()
    }
    return (
        stream_status.job,
        stream_status.state,
        stream_status.phase,
        counts,
        stream_status.tracking.get("in_flight"),
        stream_status.tracking.get("completed"),
    )


def has_caught_up(stream_status: JobStatus) -> bool:
    """Return whether no stage has lag or a queue, and no root is in flight."""
    has_no_lag = all(stage_status["lag"] == 0 for stage_status in stream_status.stages.values())
    queues = [stage["queue"] for stage in stream_status.backpressure.get("stages", {}).values()]
    return stream_status.is_ready and has_no_lag and not any(queues) and not stream_status.tracking.get("in_flight", 0)


def await_states(platform: Platform, console: Console, patience: float = 90) -> None:
    """Wait until a state of every stream is in the catalog; after `patience` seconds, report the missing ones."""

    def missing() -> list[str]:
        return [job for job in JOBS if not newest_committed(platform, f"{STATES}{job}/")]

    if left := missing():
        console.print(f"  waiting for checkpoints of {', '.join(left)} …", highlight=False)
    if not wait_until(lambda: not missing(), patience) and (left := missing()):
        console.print(f"  no checkpoint of {', '.join(left)} yet: see `springline stream list`")


def rows_of(stream_status: JobStatus) -> int:
    """Return the number of rows that a stream has read."""
    return counts_of(stream_status, JOBS[stream_status.job]).get("rows", 0)


def outcomes(settings: StreamSettings) -> tuple[StreamOutcome, ...]:
    """Return the current summary of every stream."""
    flights, word_count, shipping = (read_status(job, settings.folder(job), time.time()) for job in JOBS)
    loads = read_explanation(settings.folder(SHIPPING))
    return (
        windows_outcome("windows by SQL over\nthe flights of January", flights),
        tracked_outcome("word count, each line\ntracked by an acker", word_count),
        join_outcome("join of orders and items\nover their full history", shipping, loads),
    )


def show(console: Console) -> None:
    """Print the table of streams, and the newest results of the windows."""
    settings = StreamSettings()
    console.print(streams_table(outcomes(settings)))
    job = queryable_job_of(settings.declarations, FLIGHTS)
    query = next(iter(job.queries))
    console.print(f"  The newest windows of {query}:", highlight=False)
    with closing(Kafka(settings.cluster)) as log:
        console.print(_table(newest_rows(log, job.results, _RESULT_ROWS, query)))


def _has_messages(log: Kafka, topic: str) -> bool:
    return any(extent.high for extent in log.offset_bounds(topic).values())


def format_state(stream_status: JobStatus) -> str:
    """Describe a stream that is not ready yet; one without a recent heartbeat counts as starting, too."""
    if stream_status.phase:
        return f"starting: {stream_status.phase}"
    return "starting" if stream_status.state in ("running", "silent") else stream_status.state


def _progress_text(stream_status: JobStatus) -> str:
    """Describe the progress of a stream in a few words."""
    return f"{rows_of(stream_status):,} rows" if stream_status.is_ready else format_state(stream_status)


def _table(rows: list[dict[str, Any]]) -> Table:
    names = list(rows[0]) if rows else []
    table = plain_table(*names)
    for row in rows:
        table.add_row(*(_format_cell(value) for value in row.values()))
    return table


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = str(value)
    return text[:16].replace("T", " ") if text[10:11] == "T" else text
