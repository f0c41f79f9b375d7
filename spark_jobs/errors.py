"""What can go wrong in this package: each error names the operation, the file or the address, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from springline.persistence.errors import OperationError, RunnerUnavailableError


class JobError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that ends so: 1 something failed, 2 it was misused


class JobUsageError(JobError):
    """A command, a declaration or a name that cannot be meant so; nothing was done."""

    exit_status = 2


class DeclarationError(JobUsageError):
    """An operation whose declaration contradicts itself or another one."""


class UnknownOperationError(JobUsageError):
    """No operation of this name is registered."""


class ParameterError(JobUsageError):
    """A parameter that an operation needs is missing, or one that it cannot take was given."""


class CodeVersionError(JobError):
    """Code whose version cannot be told, because its source cannot be read."""


class SparkUnavailableError(JobError, RunnerUnavailableError):
    """No Spark answers where the settings say that it is."""


class ClassArchiveError(JobError):
    """No archive of Spark's classes could be made; Spark starts without one, in twice the time."""


class JavaUnavailableError(SparkUnavailableError):
    """No Java of 17 or later is on this machine, and the PyPI package with one is not installed."""


class FaultyOperationError(JobError, OperationError):
    """What is wrong is the operation's own code: run again, it fails again."""


class DigestError(FaultyOperationError):
    """A column of a type whose rows have no digest."""


class LandingError(JobError, OperationError):
    """A landing file that is missing, cut short, altered, or of other columns than expected."""


class ColumnsError(FaultyOperationError):
    """A table without a column that is needed."""


class QualityError(JobError, OperationError):
    """The quality gate is set to stop, and rules are broken; `report` is the whole report."""

    def __init__(self, message: str, report: Mapping[str, object]) -> None:
        super().__init__(message)
        self.report = report
