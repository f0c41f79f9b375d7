"""Commands that make savepoints, list them, and rewind to one."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from springline.persistence.model.dataset import Dataset
from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.terminal import print_json, print_result, progress
from springline.spark_jobs.streaming.checkpoints.savepoints import Savepoints, round_ids_of
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import job_named, opened_log, opened_platform
from springline.spark_jobs.streaming.commands.tables import print_rows
from springline.spark_jobs.streaming.errors import UnknownSavepointError
from springline.spark_jobs.streaming.job import Job, make_stages
from springline.spark_jobs.streaming.runtime.driver.savepoints import BEGINNING
from springline.spark_jobs.streaming.runtime.driver.savepoints import rewind as go_back
from springline.spark_jobs.streaming.settings import StreamSettings

_POLL_SECONDS = 0.1


def savepoint(
    job: JobName,
    name: Annotated[str, typer.Argument(help="Name of the savepoint")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it")] = 60.0,
    as_json: Json = False,
) -> None:
    """Make a savepoint of a running job: a snapshot of the states of all its stages."""
    declared, folder = job_named(job)
    _check(declared)
    if not folder.is_running():
        raise UnknownSavepointError(f"{job}: it is not running; start it first")
    folder.request_savepoint(name)
    until = time.monotonic() + timeout
    with progress(f"creating savepoint {name} of {job}", quiet=as_json):
        while folder.requested_savepoint() is not None:
            if time.monotonic() > until or not folder.is_running():
                raise UnknownSavepointError(
                    f"{job}: {name!r} was not created within {timeout:g} s; log: {folder.log_file}"
                )
            time.sleep(_POLL_SECONDS)
    if reason := folder.savepoint_error():
        raise UnknownSavepointError(f"{job}: {name!r} was not created: {reason}")
    print_result(as_json, {"job": job, "savepoint": name}, f"{job}: savepoint {name} created")


def savepoints(job: JobName, as_json: Json = False) -> None:
    """List a job's savepoints."""
    declared, _ = job_named(job)
    with opened_platform() as platform:
        datasets = Savepoints(platform, declared.name).all()
    if as_json:
        rows = [
            {
                "name": name,
                "created_at": dataset.committed_at,
                "bytes": dataset.bytes,
                "round_ids": round_ids_of(dataset),
            }
            for name, dataset in datasets.items()
        ]
        print_json(rows)
        return
    print_rows(
        ("savepoint", "created", "after round", "size"),
        (
            (name, _when(dataset.committed_at), _rounds(dataset), format_bytes(dataset.bytes))
            for name, dataset in datasets.items()
        ),
    )


def rewind(
    job: JobName,
    to: Annotated[str, typer.Option(help="Savepoint; default: the beginning of the topic")] = "",
    as_json: Json = False,
) -> None:
    """Rewind a stopped job to a savepoint or to the beginning of its topic; later results are emitted again."""
    settings = StreamSettings()
    declared, folder = job_named(job)
    if to:
        _check(declared)
    with (
        progress(f"rewinding {job} to {to or 'the beginning'}", quiet=as_json),
        folder.application_lock(),
        opened_platform() as platform,
        opened_log() as log,
    ):
        stages = make_stages(declared, settings)
        point = Savepoints(platform, declared.name).load(to) if to else BEGINNING
        incarnation = go_back(stages, log, point, time.time(), CheckpointStore(platform).save_packed)
        declared.on_rewind(folder)
    sentence = f"{job}: its next start resumes from {to or 'the beginning'}, as incarnation {incarnation}"
    print_result(as_json, {"job": job, "savepoint": to or None, "incarnation": incarnation}, sentence)


def _check(job: Job) -> None:
    if job.no_savepoint_reason:
        raise UnknownSavepointError(f"{job.name}: {job.no_savepoint_reason}")


def _rounds(savepoint: Dataset) -> str:
    return ", ".join(f"{stage} {number:,}" for stage, (_, number) in round_ids_of(savepoint).items())


def _when(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else ""
