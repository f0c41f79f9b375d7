"""Runs registered operations with Spark, once more if its server died meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from springline.persistence.errors import OperationError
from springline.persistence.model.dataset import Call, Operation, Written
from springline.persistence.text.redaction import redacted
from springline.spark_jobs.errors import FaultyOperationError
from springline.spark_jobs.faults import NO_SESSION_REMEDY, is_wrong_code, lacks_session
from springline.spark_jobs.landing import Landing
from springline.spark_jobs.operations import Context, Output, RegisteredOperation, Registry, load_operations
from springline.spark_jobs.parquet_io import read_table, write_table
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings


class SparkRunner:
    """Runs calls of the operations in `registry`; see `springline.persistence.engine.runner.Runner`."""

    def __init__(
        self,
        settings: JobSettings,
        registry: Registry,
        sessions: SparkSessions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.sessions = sessions
        self._clock = clock
        self._tag = f"springline-{uuid.uuid4().hex[:12]}"  # of what this runner has running

    def operations(self) -> Mapping[str, Operation]:
        """The registered operations at the version whose code is here, by name."""
        return {model.name: model for model in self.registry.models()}

    def call(self, name: str, params: Mapping[str, str]) -> Call:
        """The application of an operation to `params`, options that are not given taken from the settings."""
        declared = self.registry.get(name)
        return declared.call({**self.settings.options(), **params})

    def run(self, call: Call, sources: Sequence[str], output: str) -> Written:
        """Run `call` on the tables at the URIs `sources` and write its table to the URI `output`.

        Raises `OperationError`, with the reason and the operation's name; `FaultyOperationError` if it would fail
        again.
        """
        declared = self._declared(call, sources)
        try:
            return self._run(declared, call, sources, output, again=False)
        except OperationError:
            raise
        except Exception as error:
            if not self.sessions.lost():
                raise _failed(call, error, lost=False) from error
        try:  # the server died under it: what it had written is cleared
            return self._run(declared, call, sources, output, again=True)
        except OperationError:
            raise
        except Exception as error:
            raise _failed(call, error, lost=self.sessions.lost()) from error

    def interrupt(self) -> None:
        """Have the operation that another thread runs end soon, with `OperationError`; does nothing if none is.

        Spark may lose an interruption that comes while it plans a job: then the operation runs to its end.
        """
        self.sessions.interrupt(self._tag)

    def close(self) -> None:
        """End the Spark session."""
        self.sessions.close()

    def _declared(self, call: Call, sources: Sequence[str]) -> RegisteredOperation:
        if call.name not in self.registry.names():
            raise OperationError(
                f"operation {call.name} is not registered here; name its module in SPRINGLINE_OPERATIONS, or install "
                "the package that brings it"
            )
        declared = self.registry.get(call.name)
        if declared.version != call.version:
            raise OperationError(
                f"operation {call.name}: its code is at version {declared.version}, asked for is {call.version}"
            )
        if len(sources) != len(declared.sources):
            raise OperationError(
                f"operation {call.name} reads {', '.join(declared.sources) or 'nothing'}; {len(sources)} were given"
            )
        return declared

    def _run(
        self, declared: RegisteredOperation, call: Call, sources: Sequence[str], output: str, *, again: bool
    ) -> Written:
        spark = self.sessions.get()
        begun = self._clock()
        context = Context(spark, dict(call.params), Landing(self.settings.landing_folder))
        spark.addTag(self._tag)
        try:
            made = declared.function(context, *(read_table(spark, uri) for uri in sources))
            frame, report = (made.frame, made.report) if isinstance(made, Output) else (made, None)
            digest = write_table(frame, output, digits=declared.float_digits, again=again)
        finally:
            spark.removeTag(self._tag)
        return Written(digest.rows, str(digest), self._clock() - begun, report)


def make_runner(settings: JobSettings | None = None) -> SparkRunner:
    """The runner that the settings describe (default: the environment's); Spark starts when it is first needed."""
    settings = settings or JobSettings()
    return SparkRunner(settings, load_operations(settings.operations), SparkSessions(settings))


def _failed(call: Call, error: Exception, *, lost: bool) -> OperationError:
    params = ", ".join(f"{name}={value}" for name, value in call.params.items())
    kind = FaultyOperationError if is_wrong_code(error) and not lost else OperationError
    remedy = f"; {NO_SESSION_REMEDY}" if lacks_session(error) else ""
    return kind(f"operation {call.name} ({params}): {type(error).__name__}: {redacted(str(error))[:2000]}{remedy}")
