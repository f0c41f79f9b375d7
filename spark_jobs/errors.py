"""What can go wrong in this package: each error names the operation, the file or the address, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from springline.persistence.errors import OperationFailed, RunnerAway


class SparkJobsError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that ends so: 1 something failed, 2 it was misused


class Misuse(SparkJobsError):
    """A command, a declaration or a name that cannot be meant so; nothing was done."""

    exit_status = 2


class BadDeclaration(Misuse):
    """An operation whose declaration contradicts itself or another one."""


class UnknownOperation(Misuse):
    """No operation of this name is registered."""


class BadParameter(Misuse):
    """A parameter that an operation needs is missing, or one that it cannot take was given."""


class Unversionable(SparkJobsError):
    """Code whose version cannot be told, because its source cannot be read."""


class NoSpark(SparkJobsError, RunnerAway):
    """No Spark answers where the settings say that it is."""


class NoArchive(SparkJobsError):
    """No archive of Spark's classes could be made; Spark starts without one, in twice the time."""


class NoJava(NoSpark):
    """No Java of 17 or later is on this machine, and the PyPI package with one is not installed."""


class FaultyOperation(SparkJobsError, OperationFailed):
    """What is wrong is the operation's own code: run again, it fails again."""


class NoDigest(FaultyOperation):
    """A column of a type whose rows have no digest."""


class BadLanding(SparkJobsError, OperationFailed):
    """A landing file that is missing, cut short, altered, or of other columns than expected."""


class BadColumns(FaultyOperation):
    """A table without a column that is needed."""


class QualityStop(SparkJobsError, OperationFailed):
    """The quality gate is set to stop, and rules are broken; `report` is the whole report."""

    def __init__(self, message: str, report: Mapping[str, object]) -> None:
        super().__init__(message)
        self.report = report
