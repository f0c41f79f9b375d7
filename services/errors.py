"""The errors of servers: each message names the server, the reason, and what to do next."""

from collections.abc import Sequence
from pathlib import Path

from springline.services.log_files import last_error, tail


class ServiceError(Exception):
    """Base class of this package's errors."""

    exit_status = 1  # of a command that ends with this error: 1 failure, 2 usage error


class PortInUseError(ServiceError):
    """Another process listens on a server's port already: the process id `holder`, if known."""

    def __init__(self, message: str, holder: int | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class RunStateError(ServiceError):
    """The record file of a running server cannot be read; the message names the file."""


class NotReadyError(ServiceError):
    """A started server exited, or was not ready in time; `logs` maps each log to its last error.

    The message contains the ends of the logs.
    """

    def __init__(self, sentence: str, logs: Sequence[Path] = ()) -> None:
        super().__init__("\n".join((sentence, *map(tail, logs))))
        self.sentence = sentence
        self.logs = {log: last_error(log) for log in logs}  # read now: processes that are stopped later write more


class DataExistsError(ServiceError):
    """A folder that a first start would create contains data, without a marker of an interrupted first start."""


class StillRunningError(ServiceError):
    """A process of a server did not end, even after SIGKILL."""


class SettingsChangedError(ServiceError):
    """A server is already running, with other settings than requested."""


class JavaNotFoundError(ServiceError):
    """Java 17 or later is not installed on this machine, and neither is the PyPI package that contains one."""


class JarsNotFoundError(ServiceError):
    """The jars of a server are missing and could not be downloaded."""


class ProgramNotFoundError(ServiceError):
    """A program that a server needs is not installed, or cannot be run."""


class UnknownServerError(ServiceError):
    """No server, or set of jars, has this name."""

    exit_status = 2


class UnknownDagError(ServiceError):
    """Airflow has no DAG of this name."""

    exit_status = 2


class BadRequestError(ServiceError):
    """A request to Airflow has an invalid argument."""

    exit_status = 2
