"""How a job has its back-pressure: as its table says, or as was chosen since, while it ran or not.

[words]
backpressure = "predictive"    # or "stepwise", "stepwise-literal", "off"
control = "kafka"              # or "zookeeper": how signals travel
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from springline.spark_jobs.streaming.backpressure.admission import Mode
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json

_FILE, _LOCK = "backpressure.json", "backpressure.lock"
FILES = (_FILE, _LOCK)  # in the job's folder


class Control(StrEnum):
    """Ways for signals to travel."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Choice:
    """How a job has its back-pressure.

    Args:
        mode: how it is decided what each stage may admit.
        control: how signals travel to and from stages that are apart.

    Example:
        >>> Choice().mode.value, Choice().control.value
        ('predictive', 'kafka')
    """

    mode: Mode = Mode.PREDICTIVE
    control: Control = Control.KAFKA

    @staticmethod
    def declared(told: Declared) -> Choice:
        """What a job's table says; raises `BadJob`."""
        mode = Mode(told.choice("backpressure", [str(mode) for mode in Mode]))
        return Choice(mode, Control(told.choice("control", [str(control) for control in Control])))


USUAL: Choice = Choice()
"""What holds where a table says nothing."""


def choice_of(folder: JobFolder, declared: Choice) -> Choice:
    """What holds for a job now."""
    told = read_json(folder.path / _FILE)
    return declared if told is None else Choice(Mode(told["mode"]), Control(told["control"]))


def choose(folder: JobFolder, declared: Choice, mode: Mode | None = None, control: Control | None = None) -> Choice:
    """Let another mode or channel hold from now on, or both; the job goes on."""
    with folder.locked(_LOCK):
        before = choice_of(folder, declared)
        after = replace(before, mode=mode or before.mode, control=control or before.control)
        write_json(folder.path / _FILE, asdict(after))
        return after
