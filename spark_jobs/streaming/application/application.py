"""The application of a job: recovers lost states, starts a query per stage, and writes the heartbeat until it stops."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from springline.persistence.engine.runner import NoRunner
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.streaming.application.deadline import Deadline
from springline.spark_jobs.streaming.application.health import LOADING
from springline.spark_jobs.streaming.application.health_record import HealthRecord
from springline.spark_jobs.streaming.application.lag_history import HistoryWriter
from springline.spark_jobs.streaming.application.monitor import Monitor
from springline.spark_jobs.streaming.application.report_follower import ReportFollower
from springline.spark_jobs.streaming.application.second_application import SecondApplication
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.application.supervision import is_abandoned
from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import ChannelKind
from springline.spark_jobs.streaming.backpressure.control_topic import ControlTopic
from springline.spark_jobs.streaming.backpressure.regulator import BackpressureService, Regulator
from springline.spark_jobs.streaming.checkpoints.checkpointer import Checkpointer
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job import (
    Job,
    ServiceContext,
    make_stages,
    topic_specs,
)
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.driver.lives import (
    assign_lives,
    check_checkpoints_planned,
    check_parallelism,
)
from springline.spark_jobs.streaming.runtime.driver.task_loop_driver import TASK_LOOP_SECONDS
from springline.spark_jobs.streaming.runtime.message_log import TopicSpec
from springline.spark_jobs.streaming.runtime.report import UnitReport, sum_counts
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark.session import has_slots, set_step_modules, start_session
from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch
from springline.spark_jobs.streaming.spark.stage_query import StageQuery, start_query

logger = logging.getLogger("springline.stream")

_SYNC_TIMEOUT_SECONDS = 30.0  # seconds after which a synchronous save stops retrying
_HEARTBEAT_SECONDS = 0.5  # between two heartbeats
_DRAIN_SECONDS = 60.0  # for its rounds to end, once its lease has expired
_QUERIES = ".queries"  # subfolder of the job's states with Spark's own checkpoints, in memory
_CLOSE_SECONDS = 120.0  # for its resources to be closed, once it ends


@dataclass
class HeartbeatWriter:
    """Writes the heartbeat, from the reports of the units.

    `lapse_reason` is why the application ends without a request to stop; `phases` are what it has done and waited for
    until every stage had completed a round, each with the time at which it began.
    """

    job: str
    folder: JobFolder
    stages: Sequence[Stage] = ()
    started_at: float = field(default_factory=time.time)
    lapse_reason: str = ""
    services: Sequence[BackgroundService] = ()
    phases: list[tuple[str, float]] = field(default_factory=list)
    ready_at: float = 0.0
    reports: ReportSource | None = None

    def __post_init__(self) -> None:
        self._health = HealthRecord(self.job, MonitoringSettings().rules)
        self._history = HistoryWriter(self.folder.path)

    def begin_phase(self, phase: str) -> None:
        """Report the next phase of the start."""
        if self.ready_at:  # it starts again, in the same process
            self.phases, self.ready_at = [], 0.0
        self.phases.append((phase, time.time()))
        self.write("starting")

    def write(self, state: str, error: str = "") -> None:
        """Write the heartbeat with this state of the job."""
        reports = {stage.name: self.reports.reports(stage.name) if self.reports else {} for stage in self.stages}
        stages = {
            stage.name: _stage_heartbeat(stage, self.folder, reports[stage.name].values()) for stage in self.stages
        }
        now = time.time()
        began = max(self.started_at, self.phases[0][1] if self.phases else 0.0)
        if not self.ready_at and stages and all(each["round_ended_at"] > began for each in stages.values()):
            self.ready_at = now
        heartbeat = {
            "job": self.job,
            "state": state,
            "error": redact_secrets(error),
            "pid": os.getpid(),
            "started_at": self.started_at,
            "heartbeat_at": now,
            "phases": self.phases,
            "ready_at": self.ready_at,
            "stages": stages,
            "recovered": [
                f"{stage.id}[{unit}]: {report.state.recovered}"
                for stage in self.stages
                for unit, report in sorted(reports[stage.name].items())
                if report.state.recovered and report.round.ended_at >= self.started_at
            ],
            **{service.section: service.status() for service in self.services if service.section},
        }
        if state == "running":
            heartbeat["health"] = self._health.update(heartbeat).as_json()
            self._history.offer(heartbeat)
        self.folder.write_heartbeat(heartbeat)


def _stage_heartbeat(stage: Stage, folder: JobFolder, reports: Collection[UnitReport]) -> dict[str, Any]:
    """Return the status of a stage from the reports of its units; all values are 0 before its first round."""
    return {
        "units": stage.units,
        "paused": any((folder.path / hold).exists() for hold in stage.hold_files),
        "round": max((report.round.number for report in reports), default=0),
        "round_ended_at": max((report.round.ended_at for report in reports), default=0),
        "counts": dict(sorted(sum_counts(reports).items())),
        "state_bytes": sum(report.state.bytes for report in reports),
        "seconds": max((sum(report.round.seconds.values()) for report in reports), default=0),
        "newest_timestamp": max((report.round.newest_timestamp for report in reports), default=0),
        "task_memory": max((report.round.memory for report in reports), default=0),
        "slow_reading": next((report.round.slow_reading for report in reports if report.round.slow_reading), ""),
        "lag": max((report.round.lag for report in reports), default=0),
        "watermark": min((mark for report in reports if (mark := report.round.gauges.get("watermark"))), default=None),
    }


def run_job(job: Job, settings: StreamSettings, session: Future[SparkSession] | None = None) -> None:
    """Run a job until it is stopped, in a Spark session that is started here or was before.

    Raises any other reason for its end, and `AlreadyRunningError`.
    """
    folder = settings.folder(job.name)
    with folder.application_lock():
        folder.discard_leftovers()
        launched = folder.starting_process()
        heartbeat = HeartbeatWriter(job.name, folder)
        if launched is not None:
            heartbeat.phases.append((LOADING, launched.started_at))
        heartbeat.begin_phase(f"listing the topics of Kafka at {settings.cluster.servers}")
        try:
            _run(job, settings, folder, heartbeat, session or start_session(job.name, settings))
        except BaseException as error:
            heartbeat.write("failed", str(error).partition("\n")[0] or type(error).__name__)
            raise
        heartbeat.write("stopped", heartbeat.lapse_reason)
        logger.info("%s: stopped", job.name)


def _run(
    job: Job,
    settings: StreamSettings,
    folder: JobFolder,
    heartbeat: HeartbeatWriter,
    session: Future[SparkSession],
) -> None:
    with ExitStack() as exit_stack:
        deadline = exit_stack.enter_context(Deadline(_CLOSE_SECONDS))
        log = exit_stack.enter_context(closing(Kafka(settings.cluster)))
        log.create(TopicSpec(name, count, log_append_time=True) for name, count in job.client_topics.items())
        log.ids(job.topic)  # raises an error if it does not exist
        heartbeat.begin_phase("creating its own topics")
        placed = make_stages(job, settings)
        log.create(topic_specs(job.name, placed))
        for stage in placed:
            check_parallelism(stage, log)
        job.prepare(folder)
        stages = assign_lives(placed, log, folder.lives())
        folder.record_lives({stage.name: stage.life for stage in stages})
        platform_settings = Settings(
            sync_timeout=_SYNC_TIMEOUT_SECONDS
        )  # a stop does not wait forever for the under-store
        platform = open_platform(platform_settings, runner=NoRunner(), actor=f"stream {job.name}")
        exit_stack.callback(platform.close)
        checkpoints = CheckpointStore(platform)
        for stage in stages:
            heartbeat.begin_phase(f"checking the checkpoints of {stage.name}")
            check_checkpoints_planned(stage, log, checkpoints.newest)
        heartbeat.reports = follower = exit_stack.enter_context(ReportFollower(stages, settings.cluster))
        heartbeat.stages = stages
        own_stages = [stage for stage in stages if not stage.in_second_application]
        queries = exit_stack.enter_context(_queries(job, own_stages, folder, settings, session, heartbeat.begin_phase))
        heartbeat.begin_phase("starting its background services")
        checkpointer = Checkpointer(folder, stages, platform, settings.cluster, settings.stream_checkpoint_interval)
        regulation = _regulation(job, folder, stages, settings, follower)
        job_services = job.services(ServiceContext(folder, stages, settings, follower))
        services = [exit_stack.enter_context(service) for service in (checkpointer, regulation, *job_services)]
        services.append(follower)
        heartbeat.services = services
        monitor = Monitor(MonitoringSettings(), platform.metrics_reporter)
        second_application = (
            exit_stack.enter_context(SecondApplication(job.name))
            if any(stage.in_second_application for stage in stages)
            else None
        )

        def tick() -> None:
            if second_application is not None:
                second_application.check()
            for service in services:
                service.check()
            heartbeat.write("running", next(filter(None, _errors(services, stages, follower)), ""))
            if platform.metrics_reporter.is_enabled:
                now = time.time()
                monitor.export(read_status(job.name, folder, now), now)
            stop_if_abandoned(heartbeat, time.time())

        heartbeat.begin_phase("running the first round of each stage")
        with deadline.after():
            _watch(queries, folder, tick)


def _errors(services: Sequence[BackgroundService], stages: Sequence[Stage], reports: ReportSource) -> Iterator[str]:
    """Yield the current errors of the services, and of the units whose states could not be saved; some are empty."""
    yield from (service.last_error for service in services)
    for stage in stages:
        for unit, report in reports.reports(stage.name).items():
            if report.state.checkpoint_error:
                yield f"{stage.id}[{unit}]: {report.state.checkpoint_error}"


def stop_if_abandoned(heartbeat: HeartbeatWriter, now: float) -> None:
    """Stop an application whose lease has expired; raises `StreamError` if its rounds do not end."""
    if is_abandoned(heartbeat.folder, now) and not heartbeat.folder.stop_file.exists():
        heartbeat.lapse_reason = "its lease was not renewed"
        heartbeat.folder.request_stop()
    if is_abandoned(heartbeat.folder, now - _DRAIN_SECONDS):
        raise StreamError(f"{heartbeat.job}: its lease was not renewed, and its rounds do not end")


def _regulation(
    job: Job,
    folder: JobFolder,
    stages: Sequence[Stage],
    settings: StreamSettings,
    reports: ReportSource,
    *,
    in_second_application: bool = False,
) -> BackpressureService:
    """Return the back-pressure service for the stages that run in this application, given all `stages` of the job."""

    def open_channel(control: ChannelKind, stages: Collection[str]) -> Channel:
        if control is ChannelKind.KAFKA:
            return ControlTopic(settings.cluster, job.name, stages)
        from springline.spark_jobs.streaming.backpressure.zookeeper import ZooKeeperChannel  # few jobs need its client

        return ZooKeeperChannel(settings.zookeeper, job.name, stages)

    return BackpressureService(
        Regulator(
            job.backpressure,
            folder,
            stages,
            settings.stream_tasks_per_stage,
            open_channel,
            reports,
            apart=in_second_application,
        )
    )


def run_second_application(job: Job, settings: StreamSettings, session: Future[SparkSession] | None = None) -> None:
    """Run the stages of a job's second application, until the application that started this process ends."""
    folder, parent = settings.folder(job.name), os.getppid()
    with closing(Kafka(settings.cluster)) as log:
        stages = assign_lives(make_stages(job, settings), log, folder.lives())

    def tick() -> None:
        if os.getppid() != parent:
            raise StreamError(f"{job.name}: its application has ended")
        regulation.check()
        follower.check()

    with (
        Deadline(_CLOSE_SECONDS) as deadline,
        _queries(
            job,
            [stage for stage in stages if stage.in_second_application],
            folder,
            settings,
            session or start_session(job.name, settings),
            logger.info,
        ) as queries,
        ReportFollower(stages, settings.cluster) as follower,
        _regulation(job, folder, stages, settings, follower, in_second_application=True) as regulation,
        deadline.after(),
    ):
        _watch(queries, folder, tick)


@contextmanager
def _queries(
    job: Job,
    stages: Sequence[Stage],
    folder: JobFolder,
    settings: StreamSettings,
    starting: Future[SparkSession],
    begin_phase: Callable[[str], None],
) -> Iterator[Sequence[StageQuery]]:
    """Start a query per stage, in one Spark session."""
    begin_phase(f"starting Spark on {settings.stream_master}")
    settings.make_folders()
    session = starting.result()
    set_step_modules(session, {stage.module for stage in stages})
    try:
        tasks = [min(settings.stream_tasks_per_stage, stage.units) for stage in stages]
        seconds = TASK_LOOP_SECONDS if has_slots(session, sum(tasks), begin_phase) else 0
        begin_phase("starting its stages")
        queries = []
        for stage in stages:
            launch = StageLaunch(
                stage, settings.cluster, str(folder.path.resolve()), settings.stream_tasks_per_stage, seconds,
                settings.stream_round_bytes, job.latest and not stage.reads_own_job,
            )  # fmt: skip
            checkpoint = settings.state_folder / job.name / _QUERIES / stage.name
            queries.append(StageQuery(partial(start_query, session, launch, checkpoint)))
        yield queries
    finally:
        session.stop()


def _watch(queries: Sequence[StageQuery], folder: JobFolder, on_tick: Callable[[], None]) -> None:
    """Write heartbeats until a query fails, or until all queries are idle after the job was asked to stop."""
    resting_polls = 0
    while resting_polls < 2:
        for query in queries:
            query.check()
        on_tick()
        time.sleep(_HEARTBEAT_SECONDS)
        moving = not folder.stop_file.exists() or any(query.is_busy for query in queries)
        resting_polls = 0 if moving else resting_polls + 1
    for query in queries:
        query.stop()
