"""How a job has its back-pressure: as its table says, or as was chosen since, while it ran or not.

[words]
backpressure = "predictive"    # or "stepwise", "off", or another one installed: docs/backpressure.md
control = "kafka"              # or "zookeeper": how signals travel to and from stages that are apart
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import MODES, USUAL_MODE
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import InvalidChannelError, InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value

_FILE, _LOCK = "backpressure.json", "backpressure.lock"
FILES = (_FILE, _LOCK)  # in the job's folder


class Control(StrEnum):
    """Ways for signals to travel between the applications of a job."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Choice:
    """How a job has its back-pressure.

    Args:
        mode: how it is decided what each stage may admit.
        control: how signals travel between the applications of a job; within one they are values.

    Example:
        >>> Choice().mode, Choice().control.value
        ('predictive', 'kafka')
    """

    mode: str = USUAL_MODE
    control: Control = Control.KAFKA

    @staticmethod
    def declared(told: Declared, *, apart: bool = False) -> Choice:
        """What a job's table says, of which stages are `apart` or not; raises `InvalidJobError`."""
        if "control" in told.table and not apart:
            raise InvalidJobError(
                f"{told.where}: control is how signals travel to and from stages that are apart, and none of this job "
                "is: leave it out; of a word count, apart = true puts stages apart"
            )
        mode = told.extension("backpressure", MODES, USUAL_MODE)
        return Choice(mode, Control(told.choice("control", [str(control) for control in Control])))


USUAL: Choice = Choice()
"""What holds where a table says nothing."""


_CHOICES: Codec[Choice] = Codec(
    Choice,
    1,
    "the back-pressure that was chosen",
    "remove the file, and choose again: `springline stream backpressure`",
)


def choice_of(folder: JobFolder, declared: Choice) -> Choice:
    """What holds for a job now; raises `DecodeError`."""
    chosen = read_value(folder.path / _FILE, _CHOICES)
    return declared if chosen is None else chosen


def choose(
    folder: JobFolder, declared: Choice, mode: str | None = None, control: Control | None = None, *, apart: bool = True
) -> Choice:
    """Let another mode or channel hold from now on, or both; the job goes on.

    Raises `ExtensionError`, and `InvalidChannelError` where a channel is chosen and no stage of the job is `apart`.
    """
    if control is not None and not apart:
        raise InvalidChannelError(
            f"{folder.path.name}: all its stages run in one application, where signals need no channel; leave control "
            "out: it is for jobs with stages apart"
        )
    if mode is not None:
        MODES.check(mode)
    with folder.locked(_LOCK):
        before = choice_of(folder, declared)
        after = replace(before, mode=mode or before.mode, control=control or before.control)
        write_value(folder.path / _FILE, _CHOICES, after)
        return after
