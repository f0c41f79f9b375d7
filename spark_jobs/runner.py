"""Runs registered operations with Spark, with one retry if its server died meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from springline.persistence.errors import OperationError
from springline.persistence.model.dataset import Call, Operation, OperationResult
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.errors import FaultyOperationError
from springline.spark_jobs.faults import NO_SESSION_REMEDY, is_code_error, lacks_session
from springline.spark_jobs.landing import Landing, landing_of
from springline.spark_jobs.operation_output import fault_of_output
from springline.spark_jobs.operations import (
    Context,
    OperationOutput,
    OperationRegistry,
    RegisteredOperation,
    load_operations,
)
from springline.spark_jobs.parquet_io import read_table, write_table
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.table_source import pin_version, read_table_version


class SparkRunner:
    """Runs calls of the operations in `registry`; see `springline.persistence.engine.runner.Runner`."""

    def __init__(
        self,
        settings: JobSettings,
        registry: OperationRegistry,
        sessions: SparkSessions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.sessions = sessions
        self._clock = clock
        self._platform_settings: Settings | None = None
        self._tag = f"springline-{uuid.uuid4().hex[:12]}"  # tag of the Spark jobs of this runner

    def operations(self) -> Mapping[str, Operation]:
        """Return the registered operations by name, at the version of the code installed here."""
        return {operation.name: operation for operation in self.registry.catalog_operations()}

    def call(self, name: str, params: Mapping[str, str], versions: Mapping[str, str] = {}) -> Call:
        """Return the application of an operation to `params`; missing options are taken from the settings.

        A table that `params` give no version of is read in that of `versions`, by its URI, else in the newest one.
        Raises `ParameterError`, `OperationError`.
        """
        operation = self.registry.get(name)
        values = {**self.settings.options(), **params}
        return operation.call({**values, **self._table_versions(operation, values, versions)})

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        """Run `call` on the tables at the URIs `sources` and write its table to the URI `output`.

        Raises `OperationError`, with the reason and the operation's name; `FaultyOperationError` if a retry would fail
        again.
        """
        operation = self._checked_operation(call, sources)
        try:
            return self._run(operation, call, sources, output, overwrite=False)
        except OperationError:
            raise
        except Exception as error:
            if not self.sessions.is_lost():
                raise _operation_error(call, error, session_lost=False) from error
        try:  # the server died meanwhile: overwrite the partial output
            return self._run(operation, call, sources, output, overwrite=True)
        except OperationError:
            raise
        except Exception as error:
            raise _operation_error(call, error, session_lost=self.sessions.is_lost()) from error

    def configure(self, settings: Settings, hadoop_conf: Mapping[str, str]) -> None:
        """Open tables with `settings`, and let Spark reach the stores with those of Hadoop's clients."""
        self._platform_settings = settings
        self.sessions.configure_hadoop({**hadoop_conf, **self._landing().hadoop_conf})

    def interrupt(self) -> None:
        """Interrupt the operation that another thread runs, so that it raises `OperationError`; no effect if none runs.

        Spark may lose an interruption that arrives while it plans a job: then the operation runs to its end.
        """
        self.sessions.interrupt(self._tag)

    def close(self) -> None:
        """End the Spark session."""
        self.sessions.close()

    def _checked_operation(self, call: Call, sources: Sequence[str]) -> RegisteredOperation:
        if call.name not in self.registry.names():
            raise OperationError(
                f"operation {call.name} is not registered; add its module to SPRINGLINE_OPERATIONS, or install "
                "its package"
            )
        operation = self.registry.get(call.name)
        if operation.version != call.version:
            raise OperationError(
                f"operation {call.name}: its code has version {operation.version}, but {call.version} is requested"
            )
        if len(sources) != len(operation.sources):
            raise OperationError(
                f"operation {call.name} reads {', '.join(operation.sources) or 'nothing'}; "
                f"{len(sources)} sources were passed"
            )
        return operation

    def _table_versions(
        self, operation: RegisteredOperation, values: Mapping[str, str], versions: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the tables that an operation reads, by parameter, each with its version."""
        return {
            name: pin_version(name, uri, values.get(name) or versions.get(uri, ""), self._settings_of_platform())
            for name, uri in operation.table_uris(values).items()
        }

    def _settings_of_platform(self) -> Settings:
        """Return the settings of the platform; without a platform, those of the environment."""
        if self._platform_settings is None:
            self._platform_settings = Settings(home=self.settings.home)
        return self._platform_settings

    def _landing(self) -> Landing:
        return landing_of(self.settings, self._settings_of_platform())

    def _run(
        self, operation: RegisteredOperation, call: Call, sources: Sequence[str], output: str, *, overwrite: bool
    ) -> OperationResult:
        spark = self.sessions.get()
        start = self._clock()
        context = Context(spark, dict(call.params), self._landing())
        spark.addTag(self._tag)
        try:
            versions = [call.params[name] for name in operation.tables]
            frames = [
                *(read_table(spark, uri) for uri in sources),
                *(read_table_version(spark, name, self._settings_of_platform()) for name in versions),
            ]
            result = operation.function(context, *frames)
            if fault := fault_of_output(result):
                raise FaultyOperationError(f"{_place(call)}: {fault}")
            frame, report = (result.frame, result.report) if isinstance(result, OperationOutput) else (result, None)
            digest = write_table(frame, output, digits=operation.float_digits, overwrite=overwrite)
        finally:
            spark.removeTag(self._tag)
        return OperationResult(digest.rows, str(digest), self._clock() - start, report)


def make_runner(settings: JobSettings | None = None) -> SparkRunner:
    """Create the runner that the settings describe (default: the environment's); Spark starts on first use."""
    settings = settings or JobSettings()
    return SparkRunner(settings, load_operations(settings.operations), SparkSessions(settings))


def _operation_error(call: Call, error: Exception, *, session_lost: bool) -> OperationError:
    kind = FaultyOperationError if is_code_error(error) and not session_lost else OperationError
    remedy = f"; {NO_SESSION_REMEDY}" if lacks_session(error) else ""
    return kind(f"{_place(call)}: {type(error).__name__}: {redact_secrets(str(error))[:2000]}{remedy}")


def _place(call: Call) -> str:
    """Return the name of a call for messages."""
    return f"operation {call.name} ({', '.join(f'{name}={value}' for name, value in call.params.items())})"
