"""The application of a job: brings back lost states, starts a query a stage, beats, and ends at a round's boundary."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from springline.persistence.engine.runner import NoRunner
from springline.persistence.monitoring.logs import about
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redacted
from springline.spark_jobs.streaming.application.deadline import Deadline
from springline.spark_jobs.streaming.application.monitor import Monitor
from springline.spark_jobs.streaming.application.partition_watch import PartitionWatch
from springline.spark_jobs.streaming.application.second_application import Apart
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.application.supervision import abandoned
from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import Control
from springline.spark_jobs.streaming.backpressure.control_topic import ControlTopic
from springline.spark_jobs.streaming.backpressure.regulator import Regulation, Regulator
from springline.spark_jobs.streaming.checkpoints.checkpointer import Upkeep
from springline.spark_jobs.streaming.checkpoints.store import SavedStates
from springline.spark_jobs.streaming.errors import StreamError, TopicGrownError
from springline.spark_jobs.streaming.job import Job, ServiceContext, check_sizes, running_stages, topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.driver.recovery import check_known, recover
from springline.spark_jobs.streaming.runtime.driver.shifts import SECONDS
from springline.spark_jobs.streaming.runtime.report import counted
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark.data_source import start
from springline.spark_jobs.streaming.spark.session import has_slots, session_of
from springline.spark_jobs.streaming.spark.stage_planner import Watched
from springline.spark_jobs.streaming.spark.stage_query import StageQuery

logger = logging.getLogger("springline.stream")

_PATIENCE = 30.0  # seconds that a saving goes on trying
_BEAT_SECONDS = 0.5  # between two heartbeats
_RESTING_SECONDS = 60.0  # for its rounds to end, once nobody wants it any more
_ENDING_SECONDS = 120.0  # for what it has open to be closed, once it ends


@dataclass
class Beats:
    """Writes the heartbeat, from what the units have told; `lapsed` is why it ends though nobody has asked for that.

    `phase` is what the application does or waits for until it runs.
    """

    job: str
    folder: JobFolder
    stages: Sequence[Stage] = ()
    rebuilt: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)
    lapsed: str = ""
    services: Sequence[BackgroundService] = ()
    phase: str = ""

    def begin(self, phase: str) -> None:
        """Tell what is done next on the way to run."""
        self.phase = phase
        self.beat("starting")

    def beat(self, state: str, error: str = "") -> None:
        """Tell how the job is."""
        told = {stage.name: _told(stage, self.folder) for stage in self.stages}
        self.folder.beat(
            {
                "job": self.job,
                "state": state,
                "error": redacted(error),
                "pid": os.getpid(),
                "began": self.began,
                "at": time.time(),
                "phase": self.phase if state == "starting" else "",
                "stages": told,
                "rebuilt": self.rebuilt,
                **{service.section: service.status() for service in self.services if service.section},
            }
        )


def _told(stage: Stage, folder: JobFolder) -> dict[str, Any]:
    """A stage, from the reports of its units; all is 0 before its first round."""
    reports = stage.reports().values()
    return {
        "units": stage.units,
        "held": any((folder.path / hold).exists() for hold in stage.holds),
        "round": max((report.round for report in reports), default=0),
        "at": max((report.at for report in reports), default=0),
        "counts": dict(sorted(counted(reports).items())),
        "state_bytes": sum(report.state_bytes for report in reports),
        "seconds": max((sum(report.seconds.values()) for report in reports), default=0),
        "newest": max((report.newest for report in reports), default=0),
        "behind": max((report.behind for report in reports), default=0),
    }


def run_job(job: Job, settings: StreamSettings) -> None:
    """Run a job until it is asked to stop; raises what stops it otherwise, and `AlreadyRunningError`."""
    folder = settings.folder(job.name)
    with folder.held():
        folder.begin()
        beats = Beats(job.name, folder)
        beats.begin(f"Kafka at {settings.cluster.servers} is asked for its topics")
        try:
            while not _runs_to_its_end(job, settings, folder, beats):
                beats.begin("its topic has got more partitions")
        except BaseException as error:
            beats.beat("failed", str(error).partition("\n")[0] or type(error).__name__)
            raise
        beats.beat("stopped", beats.lapsed)
        logger.info("%s: stopped", job.name)


def _runs_to_its_end(job: Job, settings: StreamSettings, folder: JobFolder, beats: Beats) -> bool:
    """Run a job as long as its topic has as many partitions as it began with; False if there are more by now."""
    try:
        _run(job, settings, folder, beats)
    except TopicGrownError as grown:
        logger.info("%s: %s: it goes on with all of them", job.name, grown)
        return False
    return True


def _run(job: Job, settings: StreamSettings, folder: JobFolder, beats: Beats) -> None:
    with ExitStack() as leaving:
        deadline = leaving.enter_context(Deadline(_ENDING_SECONDS))
        log = leaving.enter_context(closing(Kafka(settings.cluster)))
        log.create(job.opens, dated_here=True)
        units = log.units(job.topic)
        beats.begin("topics of its own are created")
        topics = topics_of_stages(job, units)
        log.create(topics)
        if job.dead in topics:
            log.grow(job.dead, topics[job.dead])
        check_sizes(job, units, log)
        job.prepare(folder)
        settings.make_folders()
        stages = running_stages(job, units, settings)
        chosen = Settings(sync_patience=_PATIENCE)  # a stop does not wait for ever for the under-store
        platform = open_platform(chosen, runner=NoRunner(), who=f"stream {job.name}")
        leaving.callback(platform.close)
        states = SavedStates(platform)
        for stage in stages:
            beats.begin(f"states of {stage.name} are looked for")
            for unit in range(stage.units):
                stage.versions(unit).tidy()
            check_known(stage, stage.units, log, states.newest)
        for stage in stages:
            beats.begin(f"states of {stage.name} are made complete")
            for found in recover(stage, log, states.fetch):
                beats.rebuilt.append(f"{found.stage}[{found.unit}]: {found.rounds} rounds after {found.base[1]}")
                beats.begin(f"state rebuilt: {beats.rebuilt[-1]}")
                with about(stage=stage.name, unit=found.unit, round=found.base[1] + found.rounds):
                    logger.info("state rebuilt: %s", beats.rebuilt[-1])
        beats.stages = stages
        here = [stage for stage in stages if not stage.apart]
        queries = leaving.enter_context(_queries(job, here, folder, settings, beats.begin))
        beats.begin("all else beside its stages is started")
        upkeep = Upkeep(folder, stages, platform, settings.cluster, settings.stream_save)
        regulation = _regulation(job, folder, stages, settings)
        partitions = PartitionWatch(job.topic, units, settings.cluster)
        own = job.services(ServiceContext(folder, stages, settings))
        services = [leaving.enter_context(service) for service in (upkeep, regulation, partitions, *own)]
        beats.services = services
        monitor = Monitor(MonitoringSettings(), platform.meter)
        apart = leaving.enter_context(Apart(job.name)) if any(stage.apart for stage in stages) else None

        def beat() -> None:
            if apart is not None:
                apart.check()
            for service in services:
                service.check()
            beats.beat("running", next((service.trouble for service in services if service.trouble), ""))
            if platform.meter.listens:
                now = time.time()
                monitor.tell(look(job.name, folder, now), now)
            end_if_abandoned(beats, time.time())

        with deadline.after():
            _watch(queries, folder, beat)


def end_if_abandoned(beats: Beats, now: float) -> None:
    """Let an application come to rest, whose lease has run out; raises `StreamError` where its rounds do not."""
    if abandoned(beats.folder, now) and not beats.folder.stop_file.exists():
        beats.lapsed = "nobody has renewed its lease"
        beats.folder.ask_to_stop()
    if abandoned(beats.folder, now - _RESTING_SECONDS):
        raise StreamError(f"{beats.job}: nobody has renewed its lease, and its rounds do not come to rest")


def _regulation(
    job: Job, folder: JobFolder, stages: Sequence[Stage], settings: StreamSettings, *, apart: bool = False
) -> Regulation:
    """The back-pressure of the stages that run in this application, of all `stages` of the job."""

    def open_channel(control: Control, stages: Collection[str]) -> Channel:
        if control is Control.KAFKA:
            return ControlTopic(settings.cluster, job.name, stages)
        from springline.spark_jobs.streaming.backpressure.zookeeper import ZooKeeper  # few jobs need its client

        return ZooKeeper(settings.zookeeper, job.name, stages)

    return Regulation(Regulator(job.backpressure, folder, stages, settings.stream_tasks, open_channel, apart=apart))


def run_apart(job: Job, settings: StreamSettings) -> None:
    """Run the stages of a job that are apart, beside its application that has started this process, until that ends."""
    folder, parent = settings.folder(job.name), os.getppid()
    with closing(Kafka(settings.cluster)) as log:
        stages = running_stages(job, log.units(job.topic), settings)

    def beat() -> None:
        if os.getppid() != parent:
            raise StreamError(f"{job.name}: its application has ended")
        regulation.check()

    with (
        Deadline(_ENDING_SECONDS) as deadline,
        _queries(job, [stage for stage in stages if stage.apart], folder, settings, logger.info) as queries,
        _regulation(job, folder, stages, settings, apart=True) as regulation,
        deadline.after(),
    ):
        _watch(queries, folder, beat)


@contextmanager
def _queries(
    job: Job, stages: Sequence[Stage], folder: JobFolder, settings: StreamSettings, begin_phase: Callable[[str], None]
) -> Iterator[Sequence[StageQuery]]:
    """A query a stage, in a session of their own."""
    begin_phase(f"Spark is being started on {settings.stream_master}")
    session = session_of(job.name, settings, {stage.module for stage in stages})
    try:
        tasks = [min(settings.stream_tasks, stage.units) for stage in stages]
        seconds = SECONDS if has_slots(session, sum(tasks), begin_phase) else 0
        begin_phase("its stages are being started")
        queries = []
        for stage in stages:
            contents = {name: str(folder.path / file) for name, file in stage.contents.items()}
            watched = Watched(contents, [str(folder.path / hold) for hold in stage.holds])
            begin = partial(
                start, session, stage, settings.cluster, watched,
                units=stage.units, tasks=settings.stream_tasks, seconds=seconds,
                latest=job.latest and not stage.inside,
            )  # fmt: skip
            queries.append(StageQuery(begin))
        yield queries
    finally:
        session.stop()


def _watch(queries: Sequence[StageQuery], folder: JobFolder, beat: Callable[[], None]) -> None:
    """Beat until a query ends, or until all have come to rest after the job was asked to stop."""
    resting = 0
    while resting < 2:
        for query in queries:
            query.check()
        beat()
        time.sleep(_BEAT_SECONDS)
        moving = not folder.stop_file.exists() or any(query.is_busy for query in queries)
        resting = 0 if moving else resting + 1
    for query in queries:
        query.stop()
