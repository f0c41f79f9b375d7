"""A job's back-pressure configuration: as declared in its table, or as changed later, while the job runs or not.

[words]
backpressure = "predictive"    # or "stepwise", "off", or an installed one: docs/backpressure.md
signal_channel = "kafka"              # or "zookeeper": channel to and from stages in a separate application
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import DEFAULT_MODE, MODES
from springline.spark_jobs.streaming.config import JobTable
from springline.spark_jobs.streaming.errors import InvalidChannelError, InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value

_FILE, _LOCK = "backpressure.json", "backpressure.lock"
FILES = (_FILE, _LOCK)  # in the job's folder


class ChannelKind(StrEnum):
    """Kinds of signal channels between the applications of a job."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class BackpressureConfig:
    """Back-pressure configuration of a job.

    Args:
        mode: the algorithm that decides how much each stage may admit.
        signal_channel: the channel for signals between the applications of a job; within one they are values.

    Example:
        >>> BackpressureConfig().mode, BackpressureConfig().signal_channel.value
        ('predictive', 'kafka')
    """

    mode: str = DEFAULT_MODE
    signal_channel: ChannelKind = ChannelKind.KAFKA

    @staticmethod
    def from_table(job_table: JobTable, *, apart: bool = False) -> BackpressureConfig:
        """Read a job's table; `apart` says whether the job has a separate application. Raises `InvalidJobError`."""
        if "signal_channel" in job_table.table and not apart:
            raise InvalidJobError(
                f"{job_table.where}: signal_channel is how signals travel to and from "
                f"stages that are apart, and none of this job "
                "is: leave it out; of a word count, second_application = true puts stages apart"
            )
        mode = job_table.extension("backpressure", MODES, DEFAULT_MODE)
        return BackpressureConfig(
            mode, ChannelKind(job_table.choice("signal_channel", [str(control) for control in ChannelKind]))
        )


DEFAULT_CONFIG: BackpressureConfig = BackpressureConfig()
"""What holds where a table says nothing."""


_CONFIG_CODEC: Codec[BackpressureConfig] = Codec(
    BackpressureConfig,
    1,
    "the back-pressure that was chosen",
    "remove the file, and choose again: `springline stream backpressure`",
)


def read_config(folder: JobFolder, declared: BackpressureConfig) -> BackpressureConfig:
    """Return the current configuration of a job, by default `declared`; raises `DecodeError`."""
    stored = read_value(folder.path / _FILE, _CONFIG_CODEC)
    return declared if stored is None else stored


def update_config(
    folder: JobFolder,
    declared: BackpressureConfig,
    mode: str | None = None,
    control: ChannelKind | None = None,
    *,
    apart: bool = True,
) -> BackpressureConfig:
    """Change the mode, the channel, or both from now on; the job keeps running.

    Raises `ExtensionError`, and `InvalidChannelError` if a channel is chosen and no stage of the job is `apart`.
    """
    if control is not None and not apart:
        raise InvalidChannelError(
            f"{folder.path.name}: all its stages run in one application, where signals need no channel; leave control "
            "out: it is for jobs with stages apart"
        )
    if mode is not None:
        MODES.check(mode)
    with folder.lock(_LOCK):
        before = read_config(folder, declared)
        after = replace(before, mode=mode or before.mode, signal_channel=control or before.signal_channel)
        write_value(folder.path / _FILE, _CONFIG_CODEC, after)
        return after
