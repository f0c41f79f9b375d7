"""The interface to whatever runs operations: this package decides what is re-run, and starts nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from springline.persistence.errors import OperationError, UsageError
from springline.persistence.model.dataset import Call, Operation, OperationResult
from springline.persistence.project import add_project_to_path
from springline.persistence.settings import Settings


class Runner(Protocol):
    """Runs registered operations; `springline.testing.LinesRunner` is a small implementation.

    Example:
        >>> class NothingRunner:
        ...     def operations(self):
        ...         return {"nothing": Operation("nothing", "1", idempotent=True)}
        ...
        ...     def run(self, call, sources, output):
        ...         Path(output.removeprefix("file://")).mkdir(parents=True)
        ...         return OperationResult(rows=0, digest="", seconds=0.0)
        >>> runner: Runner = NothingRunner()
        >>> list(runner.operations())
        ['nothing']
    """

    def operations(self) -> Mapping[str, Operation]:
        """Return the registered operations by name, at the version of the available code."""

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        """Run `call` on the source URIs, in the order of the recorded sources, and write to the URI `output`.

        `output` is a folder that does not exist yet. Raises `OperationError`, also when the
        registered version is not `call.version`.
        """


@runtime_checkable
class Interruptible(Protocol):
    """A runner whose run can be interrupted from another thread; with other runners a proof runs to its end."""

    def interrupt(self) -> None:
        """Make the running operation end soon with `OperationError`; does nothing if none is running."""


@runtime_checkable
class ConfigurableRunner(Protocol):
    """A runner that opens stores and tables itself, as Spark does."""

    def configure(self, settings: Settings, hadoop_conf: Mapping[str, str]) -> None:
        """Open tables with `settings`, and stores with those of Hadoop's clients, such as `fs.s3a.endpoint`.

        Called once for each platform that has the runner, before the first run.
        """


class NoRunner:
    """Placeholder if no runner is configured: nothing can be recomputed, so data is always sent."""

    def operations(self) -> Mapping[str, Operation]:
        return {}

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        raise OperationError(f"{call.name}: no runner is set; set one with SPRINGLINE_RUNNER=module:factory")


def load_runner(spec: str) -> Runner:
    """Return the runner that `module:factory` names; an empty `spec` gives `NoRunner`.

    Raises `UsageError` if it cannot be imported or has no such factory.
    """
    if not spec:
        return NoRunner()
    module, _, factory = spec.partition(":")
    add_project_to_path()
    try:
        runner_module = import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise UsageError(f"SPRINGLINE_RUNNER={spec!r}, as module:factory, cannot be imported: {error}") from error
    make = getattr(runner_module, factory, None)
    if not callable(make):
        raise UsageError(f"SPRINGLINE_RUNNER={spec!r}, as module:factory: the module {module} has no such function")
    return make()  # type: ignore[no-any-return]
