"""The keys of a job's table in the file that declares jobs which several kinds share."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from springline.persistence.errors import ExtensionError
from springline.persistence.model.toml_table import InvalidTableError, Name, TomlTable, read_table
from springline.spark_jobs.streaming.backpressure.admission import DEFAULT_MODE, MODES
from springline.spark_jobs.streaming.backpressure.config import BackpressureConfig, ChannelKind
from springline.spark_jobs.streaming.errors import InvalidJobError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


class JobKeys(TomlTable, frozen=True, kw_only=True):
    """Keys of every stream job; a kind of job adds its own in a subclass.

    Args:
        kind: kind of the job, the name of an entry point.
        backpressure: mode of back-pressure.
        signal_channel: channel of the signals between the applications of a job, if it has two.

    Example:
        >>> class PeakKeys(JobKeys, frozen=True, kw_only=True):
        ...     least: float = 1.0
        >>> PeakKeys(kind="peaks", least=8.0).backpressure_config().mode
        'predictive'
    """

    kind: Annotated[str, Meta(description="kind of the job, the name of an entry point")] = "windows"
    backpressure: Annotated[
        str, Meta(description="mode of back-pressure: predictive, stepwise, off, or one that a package adds")
    ] = DEFAULT_MODE
    signal_channel: Annotated[
        ChannelKind | None,
        Meta(description='channel of the signals between the applications of a job, "kafka" if it is not set; only '
                         "for jobs with a second application"),
    ] = None  # fmt: skip

    def backpressure_config(self, *, second_application: bool = False) -> BackpressureConfig:
        """Return the back-pressure configuration; raises `InvalidJobError`.

        A signal channel is only for jobs with a second application.
        """
        if self.signal_channel is not None and not second_application:
            raise InvalidJobError(
                "signal_channel is for the signals between two applications, and this job has one: remove the key; of "
                "a word count, second_application = true starts another one"
            )
        try:
            mode = self.backpressure if self.backpressure == DEFAULT_MODE else MODES.check(self.backpressure)
        except ExtensionError as error:
            raise InvalidJobError(f"backpressure: {error}") from error
        return BackpressureConfig(mode, self.signal_channel or ChannelKind.KAFKA)


class StartKeys(JobKeys, frozen=True, kw_only=True):
    """Keys of a job whose first run starts from a chosen end of its topics."""

    start_from: Annotated[
        Literal["earliest", "latest"], Meta(description="offset from which a job starts that never ran")
    ] = "earliest"

    @property
    def latest(self) -> bool:
        """Whether a job that never ran starts from the latest messages."""
        return self.start_from == "latest"


class SourceKeys(StartKeys, frozen=True, kw_only=True):
    """Keys of a job that reads one topic, beside `kind`, `backpressure` and `signal_channel`.

    Args:
        topic: the topic.
        start_from: offset from which a job starts that never ran, `earliest` or `latest`.

    Example:
        >>> SourceKeys(topic="heights", start_from="latest").latest
        True
    """

    topic: Annotated[Name, Meta(description="topic that the job reads")]


Keys = TypeVar("Keys", bound=JobKeys)


def check_name(name: str, where: str) -> None:
    """Raise `InvalidJobError` for an invalid name of a job."""
    if not _NAME.fullmatch(name):
        raise InvalidJobError(
            f"{where}: a name begins with a small letter, and has small letters, digits, dashes and underscores, at "
            "most 41 characters"
        )


def read_keys(model: type[Keys], table: Any, where: str) -> Keys:
    """Convert the table of a job; raises `InvalidJobError`, which names the file, the job, the key and its value."""
    try:
        return read_table(model, table, where)
    except InvalidTableError as error:
        raise InvalidJobError(str(error)) from None
