"""The public names for a package that brings a kind of stream job; `docs/howto.md` has a whole one.

    Kind                       what the entry point of the group `springline.stream_kinds` leads to
    Job, BaseJob               what a job is, and what it is unless its kind says otherwise; `StageSpec` is one of its
                               stages
    Declared                   the table of a job in streams.toml
    Choice, USUAL              how its back-pressure is; the usual one
    STOP, HOLD                 what a stage waits for that reads the job's own topic; others wait for `STOP` alone
    Step                       what a stage runs: a function from `State` and `Input` to `Output`, with `Message`,
                               `DeadLetter` and `Round`
    BackgroundService          what works beside the stages; made by `BaseJob.services` from a `ServiceContext`
    JobFolder                  the folder of a job, where its stages look at files

Example:
    >>> from springline.stream_kinds import StageSpec
    >>> StageSpec("watch", "heights.step:Records", "numbers", results="everest.results").module
    'heights.step'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import late_names

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
    from springline.spark_jobs.streaming.config import Declared
    from springline.spark_jobs.streaming.job import BaseJob, Job, ServiceContext
    from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
    from springline.spark_jobs.streaming.kinds import Kind
    from springline.spark_jobs.streaming.runtime.background import BackgroundService
    from springline.spark_jobs.streaming.runtime.stage import StageSpec
    from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, Round, State, Step

__all__ = [
    "HOLD", "STOP", "USUAL", "BackgroundService", "BaseJob", "Choice", "DeadLetter", "Declared", "Input",
    "Job", "JobFolder", "Kind", "Message", "Output", "Round", "ServiceContext", "StageSpec", "State", "Step",
]  # fmt: skip

_NAMES = {
    "backpressure.config": ("USUAL", "Choice"),
    "config": ("Declared",),
    "job": ("BaseJob", "Job", "ServiceContext"),
    "job_folder": ("HOLD", "STOP", "JobFolder"),
    "kinds": ("Kind",),
    "runtime.background": ("BackgroundService",),
    "runtime.stage": ("StageSpec",),
    "runtime.step": ("DeadLetter", "Input", "Message", "Output", "Round", "State", "Step"),
}
_MODULES = {name: f"springline.spark_jobs.streaming.{module}" for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = late_names(__name__, _MODULES)
