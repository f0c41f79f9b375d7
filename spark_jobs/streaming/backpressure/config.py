"""A job's back-pressure configuration: as declared in its table, or as changed later, while the job runs or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import DEFAULT_MODE, MODES
from springline.spark_jobs.streaming.errors import InvalidChannelError
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


DEFAULT_CONFIG: BackpressureConfig = BackpressureConfig()
"""What holds where a table says nothing."""


_CONFIG_CODEC: Codec[BackpressureConfig] = Codec(
    BackpressureConfig,
    1,
    "the back-pressure configuration",
    "remove the file, and set the mode with `springline stream backpressure set`",
)


def read_config(folder: JobFolder, declared: BackpressureConfig) -> BackpressureConfig:
    """Return the current configuration of a job, by default `declared`; raises `DecodeError`."""
    stored = read_value(folder.path / _FILE, _CONFIG_CODEC)
    return declared if stored is None else stored


def update_config(
    folder: JobFolder,
    declared: BackpressureConfig,
    mode: str | None = None,
    signal_channel: ChannelKind | None = None,
    *,
    apart: bool = True,
) -> BackpressureConfig:
    """Change the mode, the channel, or both from now on; the job keeps running.

    Raises `ExtensionError`, and `InvalidChannelError` if a channel is chosen and no stage of the job is `apart`.
    """
    if signal_channel is not None and not apart:
        raise InvalidChannelError(
            f"{folder.path.name}: all its stages run in one application, which needs no signal channel; omit "
            "--signal-channel: it applies only to jobs with a second application"
        )
    if mode is not None:
        MODES.check(mode)
    with folder.lock(_LOCK):
        before = read_config(folder, declared)
        after = replace(before, mode=mode or before.mode, signal_channel=signal_channel or before.signal_channel)
        write_value(folder.path / _FILE, _CONFIG_CODEC, after)
        return after
