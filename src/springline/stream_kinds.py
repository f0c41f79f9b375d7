"""The public names for a package that brings a kind of stream job; `docs/howto.md` has a whole one.

    Kind                       what the entry point of the group `springline.stream_kinds` leads to
    BaseJob                    what a job is unless its kind says otherwise; with `StageSpec` for each of its stages
    Declared                   the table of a job in streams.toml; `BadJob` where it says something impossible
    Choice, USUAL              how its back-pressure is; the usual one
    STOP, HOLD                 what a stage waits for that reads the job's own topic; others wait for `STOP` alone
    State, Input, Output       what a step has, is given and gives; with `Message`, `DeadLetter` and `Round`
    BackgroundService          what works beside the stages; made by `BaseJob.services` from a `ServiceContext`
    JobFolder                  the folder of a job, where its stages look at files

Example:
    >>> from springline.stream_kinds import StageSpec
    >>> StageSpec("watch", "heights.step:Records", "numbers", results="everest.results").module
    'heights.step'
"""

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import BadJob
from springline.spark_jobs.streaming.job import BaseJob, Job, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, Round, State, Step

__all__ = [
    "HOLD", "STOP", "USUAL", "BackgroundService", "BadJob", "BaseJob", "Choice", "DeadLetter", "Declared", "Input",
    "Job", "JobFolder", "Kind", "Message", "Output", "Round", "ServiceContext", "StageSpec", "State", "Step",
]  # fmt: skip
