"""What can go wrong with servers: each error says which one, why, and what to do next."""


class ServiceError(Exception):
    """The root of this package's errors."""


class PortTaken(ServiceError):
    """Somebody listens already where a server is to listen: the process `holder`, where that is known."""

    def __init__(self, message: str, holder: int | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class BadRecord(ServiceError):
    """The file that tells of a running server cannot be read; names it."""


class NotReady(ServiceError):
    """A server ended, or did not answer in time, when it was started."""


class DataThere(ServiceError):
    """A folder that a first start would make holds data already, and nothing tells that a first start was cut short."""


class StillRunning(ServiceError):
    """A process of a server did not end, not even when killed."""


class OtherSettings(ServiceError):
    """A server runs already, with other settings than those asked for."""


class NoJava(ServiceError):
    """No Java of 17 or later is on this machine, and the PyPI package with one is not installed."""


class NoJars(ServiceError):
    """The jars of a server are not here and could not be fetched."""


class NoProgram(ServiceError):
    """A program that a server needs is not on this machine."""


class UnknownServer(ServiceError):
    """A name that no server has."""
