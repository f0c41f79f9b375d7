"""The streams of the demo: each under its DAG, fed while the demo goes on, shown when they have taken all of it."""

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
    Outcome,
    counts_of,
    join_outcome,
    streams_table,
    tracked_outcome,
    windows_outcome,
)
from springline.services.demo.progress import RunProgress
from springline.services.demo.wait import comes_true
from springline.services.demo.workflow import STATES, standing
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.examples.datagen import Source, messages_of, send
from springline.spark_jobs.streaming.join.rebalance import explained
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.tail import newest
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of

FLIGHTS, WORDS, SHIPPING = "flights", "words", "shipping"
JOBS = {FLIGHTS: "map", WORDS: "split", SHIPPING: "route"}  # each with its first stage
LINES = "lines"  # the topic that `words` reads
_UNITS = 2
_SHOWN = 3  # rows of results
_LEVEL_SECONDS = 3.0  # for which nothing waits: rounds come every second, heartbeats twice a second


@dataclass(frozen=True)
class Feed:
    """Rows of a source for a topic: how many, how many a message, how quickly (see `messages_of`).

    They are sent by every demo if `again`, else only where the topic is empty.
    """

    topic: str
    source: Source
    rows: int
    size: int
    speed: float
    again: bool = False


FEEDS = (
    Feed("flights", Source.FLIGHTS, 27_000, 50, 12 * 3600.0),  # January in a minute
    Feed(LINES, Source.LINES, 30_000, 50, 500.0, again=True),
    Feed("orders", Source.ORDERS, 20_000, 100, 400.0),
    Feed("items", Source.ITEMS, 40_000, 100, 800.0),
)


class Feeding:
    """Sends what the streams read while the demo goes on; `end` waits for it."""

    def __init__(self, settings: StreamSettings, feeds: Sequence[Feed] = FEEDS) -> None:
        self._settings = settings
        self._errors: list[Exception] = []
        with closing(Kafka(settings.cluster)) as log:
            log.create({feed.topic: _UNITS for feed in feeds})
            chosen = [feed for feed in feeds if feed.again or not _holds_any(log, feed.topic)]
        self._threads = [threading.Thread(target=self._send, args=(feed,), daemon=True) for feed in chosen]
        for thread in self._threads:
            thread.start()

    @property
    def going_on(self) -> bool:
        """Whether something is still to be sent."""
        return any(thread.is_alive() for thread in self._threads)

    def check(self) -> None:
        """Raise what went wrong first."""
        if self._errors:
            raise self._errors[0]

    def _send(self, feed: Feed) -> None:
        try:
            with closing(Kafka(self._settings.cluster)) as log:
                send(log, feed.topic, messages_of(feed.source, rows=feed.rows, size=feed.size, speed=feed.speed))
        except Exception as error:
            self._errors.append(error)


def dag_of(job: str) -> str:
    """The id of the DAG that supervises a job."""
    return f"stream_{job}"


def drop_states_of_before(settings: StreamSettings, jobs: Iterable[str] = JOBS) -> None:
    """Remove states in memory of jobs of which this home knows nothing: it was removed, and they are of another Kafka.

    Where that is wrong nothing is lost: states that are missing are rebuilt.
    """
    for job in jobs:
        if not settings.folder(job).path.exists():
            shutil.rmtree(settings.state_folder / job, ignore_errors=True)


class Streams:
    """The streams under their DAGs, each begun when the one before works: the start of one fills two cores."""

    def __init__(self, api: AirflowApi, settings: StreamSettings) -> None:
        self._api = api
        self._settings = settings
        self._begun: list[str] = []
        drop_states_of_before(settings)
        self.feeding = Feeding(settings)

    def step(self, progress: RunProgress) -> None:
        """Begin the next one if it is time, and show how far each is; raises what went wrong with feeding them."""
        self.feeding.check()
        if all(seen.works for seen in self._seen(self._begun)):
            for job in list(JOBS)[len(self._begun) :][:1]:
                self._begin(job)
        tell(progress, self._seen(JOBS))

    @property
    def folder(self) -> Path:
        """Where each has a folder with its log."""
        return self._settings.jobs_folder

    def late(self) -> list[Seen]:
        """Those before which something waits, as they told last."""
        return [seen for seen in self._seen(JOBS) if not caught_up(seen)]

    def _begin(self, job: str) -> None:
        """Start a stream under its DAG, unless a run of it lives."""
        self._api.pause(dag_of(job), False)
        (seen,) = self._seen([job])
        if wants_run(seen, tuple(self._api.living(dag_of(job)).values())):
            self._api.trigger(dag_of(job), {})
        self._begun.append(job)

    def _seen(self, jobs: Iterable[str]) -> list[Seen]:
        return [look(job, self._settings.folder(job), time.time()) for job in jobs]


def wants_run(seen: Seen, living: Collection[str]) -> bool:
    """Whether a job needs another DAG run, by the states of those that live.

    The run of a stream that was stopped is about to end: the next one waits for that.
    """
    return not living or (seen.state == "stopped" and "queued" not in living)


def tell(progress: RunProgress, jobs: Iterable[Seen]) -> None:
    """Show how far each stream is."""
    for seen in jobs:
        progress.tell(f"stream {seen.job}", _far(seen))


def await_all(streams: Streams, console: Console, check: Callable[[], None], patience: float = 300) -> None:
    """Wait until the streams have taken all that is sent, showing how far they are; `check` may raise."""
    busy = time.time()
    late: list[Seen] = []
    with RunProgress(console) as progress:

        def level() -> bool:
            nonlocal busy, late
            check()
            streams.step(progress)
            late = streams.late()
            if late or streams.feeding.going_on:
                busy = time.time()
            return time.time() - busy >= _LEVEL_SECONDS

        if not comes_true(level, patience, lambda: [_progress_of(seen) for seen in late]):
            told = ", ".join(f"{each.job} is {each.state} {each.error or each.phase}".rstrip() for each in late)
            raise ServiceError(
                f"streams have not caught up, and got no further for {patience:g} s: {told}; each has a log in "
                f"{streams.folder}"
            )


def _progress_of(seen: Seen) -> tuple[Any, ...]:
    """What changes while a stream gets on; rounds end without messages, too."""
    counts = {stage: (told["counts"], told["behind"]) for stage, told in seen.stages.items()}
    return seen.job, seen.state, seen.phase, counts, seen.tracking.get("in_flight"), seen.tracking.get("completed")


def caught_up(seen: Seen) -> bool:
    """Whether nothing waits before any stage, and no root is in flight."""
    level = all(told["behind"] == 0 for told in seen.stages.values())
    queues = [stage["queue"] for stage in seen.backpressure.get("stages", {}).values()]
    return seen.works and level and not any(queues) and not seen.tracking.get("in_flight", 0)


def await_states(platform: Platform, console: Console, patience: float = 90) -> None:
    """Wait until a state of every stream is in the catalog; goes on without those that take longer."""

    def missing() -> list[str]:
        return [job for job in JOBS if not standing(platform, f"{STATES}{job}/")]

    if left := missing():
        console.print(f"  states of {', '.join(left)} are still to be saved …", highlight=False)
    if not comes_true(lambda: not missing(), patience) and (left := missing()):
        console.print(f"  no state of {', '.join(left)} was saved yet: see `springline stream list`")


def rows_of(seen: Seen) -> int:
    """The rows that a stream has read."""
    return counts_of(seen, JOBS[seen.job]).get("rows", 0)


def outcomes(settings: StreamSettings) -> tuple[Outcome, ...]:
    """What came of every stream so far."""
    flights, words, shipping = (look(job, settings.folder(job), time.time()) for job in JOBS)
    loads = explained(settings.folder(SHIPPING))
    return (
        windows_outcome("windows by SQL over\nthe flights of January", flights),
        tracked_outcome("word count, each line\ntracked by an acker", words),
        join_outcome("join of orders and items\nover their full history", shipping, loads),
    )


def show(console: Console) -> None:
    """The table of streams, and the newest results of the windows."""
    settings = StreamSettings()
    console.print(streams_table(outcomes(settings)))
    job = queryable_job_of(settings.declarations, FLIGHTS)
    query = next(iter(job.queries))
    console.print(f"  The newest windows of {query}:", highlight=False)
    with closing(Kafka(settings.cluster)) as log:
        console.print(_table(newest(log, job.results, _SHOWN, query)))


def _holds_any(log: Kafka, topic: str) -> bool:
    return any(extent.high for extent in log.extents(topic).values())


def say_state(seen: Seen) -> str:
    """How a stream is that does not work yet: what lives and has not beaten for a while is on its way, too."""
    if seen.phase:
        return f"starting: {seen.phase}"
    return "starting" if seen.state in ("running", "silent") else seen.state


def _far(seen: Seen) -> str:
    """How far a stream is, in a few words."""
    return f"{rows_of(seen):,} rows" if seen.works else say_state(seen)


def _table(rows: list[dict[str, Any]]) -> Table:
    names = list(rows[0]) if rows else []
    table = plain_table(*names)
    for row in rows:
        table.add_row(*(_said(value) for value in row.values()))
    return table


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = str(value)
    return text[:16].replace("T", " ") if text[10:11] == "T" else text
