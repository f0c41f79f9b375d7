"""What can go wrong with servers: each error says which one, why, and what to do next."""

from collections.abc import Sequence
from pathlib import Path

from springline.services.log_files import last_error, tail


class ServiceError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that ends so: 1 something failed, 2 it was misused


class PortInUseError(ServiceError):
    """Somebody listens already where a server is to listen: the process `holder`, where that is known."""

    def __init__(self, message: str, holder: int | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class RunStateError(ServiceError):
    """The file that tells of a running server cannot be read; names it."""


class NotReadyError(ServiceError):
    """A server ended, or did not answer in time, when it was started; `logs` have the last error of each log.

    The ends of the logs are in the text.
    """

    def __init__(self, sentence: str, logs: Sequence[Path] = ()) -> None:
        super().__init__("\n".join((sentence, *map(tail, logs))))
        self.sentence = sentence
        self.logs = {log: last_error(log) for log in logs}  # as they are now: what is ended afterwards writes more


class DataExistsError(ServiceError):
    """A folder that a first start would make holds data already, and nothing tells that a first start was cut short."""


class StillRunningError(ServiceError):
    """A process of a server did not end, not even when killed."""


class SettingsChangedError(ServiceError):
    """A server runs already, with other settings than those asked for."""


class JavaNotFoundError(ServiceError):
    """No Java of 17 or later is on this machine, and the PyPI package with one is not installed."""


class JarsNotFoundError(ServiceError):
    """The jars of a server are not here and could not be fetched."""


class ProgramNotFoundError(ServiceError):
    """A program that a server needs is not on this machine."""


class UnknownServerError(ServiceError):
    """A name that no server has."""

    exit_status = 2


class UnknownDagError(ServiceError):
    """A name that no DAG of Airflow has."""

    exit_status = 2


class BadRequestError(ServiceError):
    """Something was asked of Airflow that cannot be meant so."""

    exit_status = 2
