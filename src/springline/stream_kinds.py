"""The public names for a package that adds a kind of stream job; `docs/howto.md` has a complete example.

    Kind                       the object that an entry point of the group `springline.stream_kinds` names
    Job, BaseJob               the interface of a job, and a base class with defaults; `StageSpec` declares one stage
    JobKeys, SourceKeys        base classes of the keys of a job in streams.toml; the second for one topic to read
    BackpressureConfig         the configuration of its back-pressure; `DEFAULT_CONFIG` is the default
    STOP, HOLD                 files that stop a stage, and that pause one reading the job's own topic, for which a
                               stage polls; stages that read other topics poll `STOP` only
    Step                       what a stage runs: a function from `State` and `Input` to `Output`, with `Message`,
                               `MessageBatch`, `DeadLetter` and `Round`
    BackgroundService          runs beside the stages; created by `BaseJob.services` from a `ServiceContext`
    JobFolder                  the folder of a job, in which its stages poll files

Example:
    >>> from springline.stream_kinds import StageSpec
    >>> StageSpec("watch", "heights.step:Records", "numbers", results="everest.results").module
    'heights.step'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import lazy_attributes

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
    from springline.spark_jobs.streaming.job import BaseJob, Job, ServiceContext
    from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
    from springline.spark_jobs.streaming.job_keys import JobKeys, SourceKeys
    from springline.spark_jobs.streaming.kinds import Kind
    from springline.spark_jobs.streaming.runtime.background import BackgroundService
    from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
    from springline.spark_jobs.streaming.runtime.stage import StageSpec
    from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, Round, State, Step

__all__ = [
    "DEFAULT_CONFIG",
    "HOLD",
    "STOP",
    "BackgroundService",
    "BackpressureConfig",
    "BaseJob",
    "DeadLetter",
    "Input",
    "Job",
    "JobFolder",
    "JobKeys",
    "Kind",
    "Message",
    "MessageBatch",
    "Output",
    "Round",
    "ServiceContext",
    "SourceKeys",
    "StageSpec",
    "State",
    "Step",
]  # fmt: skip

_NAMES = {
    "backpressure.config": ("DEFAULT_CONFIG", "BackpressureConfig"),
    "job": ("BaseJob", "Job", "ServiceContext"),
    "job_folder": ("HOLD", "STOP", "JobFolder"),
    "job_keys": ("JobKeys", "SourceKeys"),
    "kinds": ("Kind",),
    "runtime.background": ("BackgroundService",),
    "runtime.stage": ("StageSpec",),
    "runtime.message": ("Message", "MessageBatch"),
    "runtime.step": ("DeadLetter", "Input", "Output", "Round", "State", "Step"),
}
_MODULES = {name: f"springline.spark_jobs.streaming.{module}" for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
