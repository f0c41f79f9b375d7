"""The errors of this package: each message names the operation, the file or the address, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from springline.persistence.errors import OperationError, RunnerUnavailableError


class JobError(Exception):
    """Base class of this package's errors."""

    exit_status = 1  # of a command that ends with this error: 1 failure, 2 usage error


class JobUsageError(JobError):
    """A command, a declaration or a name is invalid; nothing was done."""

    exit_status = 2


class DeclarationError(JobUsageError):
    """The declaration of an operation contradicts itself or another one."""


class UnknownOperationError(JobUsageError):
    """No operation of this name is registered."""


class ParameterError(JobUsageError):
    """A required parameter of an operation is missing, or the value of one is invalid."""


class SparkUnavailableError(JobError, RunnerUnavailableError):
    """Spark does not answer at the address in the settings, or cannot be started."""


class ClassArchiveError(JobError):
    """The archive of Spark's classes could not be created; Spark starts without it, in twice the time."""


class JavaUnavailableError(SparkUnavailableError):
    """Java 17 or later is not installed on this machine, and neither is the PyPI package that contains one."""


class FaultyOperationError(JobError, OperationError):
    """The operation's own code is at fault, so a retry would fail again."""


class CodeVersionError(FaultyOperationError):
    """The version of an operation cannot be computed: a source cannot be read, or a value differs in each process."""


class DigestError(FaultyOperationError):
    """A column has a type for which no digest is defined."""


class LandingError(JobError, OperationError):
    """A landing file is missing, truncated or altered, or has other columns than expected."""


class ColumnsError(FaultyOperationError):
    """A table lacks a required column."""


class QualityError(JobError, OperationError):
    """The quality gate stopped the run because rules are broken; `report` is the complete report."""

    def __init__(self, message: str, report: Mapping[str, object]) -> None:
        super().__init__(message)
        self.report = report
