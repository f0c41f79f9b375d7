"""The seam to whatever runs operations: this package decides what is run again and starts nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from springline.persistence.errors import OperationError, UsageError
from springline.persistence.model.dataset import Call, Operation, Written
from springline.persistence.project import let_import


class Runner(Protocol):
    """Runs registered operations: whatever has these two methods. `springline.testing.LinesRunner` is a small one.

    Example:
        >>> class NothingRunner:
        ...     def operations(self):
        ...         return {"nothing": Operation("nothing", "1", idempotent=True)}
        ...
        ...     def run(self, call, sources, output):
        ...         Path(output.removeprefix("file://")).mkdir(parents=True)
        ...         return Written(rows=0, digest="", seconds=0.0)
        >>> runner: Runner = NothingRunner()
        >>> list(runner.operations())
        ['nothing']
    """

    def operations(self) -> Mapping[str, Operation]:
        """The registered operations at the version whose code is here, by name."""

    def run(self, call: Call, sources: Sequence[str], output: str) -> Written:
        """Run `call` on the source URIs, in the order of the recorded sources, into the URI `output`.

        `output` is a folder that does not exist yet. Raises `OperationError`, also when the
        registered version is not `call.version`.
        """


@runtime_checkable
class Interruptible(Protocol):
    """What a runner also is whose run can be ended by another thread; a proof by another one is run to its end."""

    def interrupt(self) -> None:
        """Have the operation that is being run end soon, with `OperationError`; does nothing if none is."""


class NoRunner:
    """Stands where no runner was given: nothing can be recomputed, so data is always sent."""

    def operations(self) -> Mapping[str, Operation]:
        return {}

    def run(self, call: Call, sources: Sequence[str], output: str) -> Written:
        raise OperationError(f"{call.name}: no runner is set; give one with SPRINGLINE_RUNNER=module:factory")


def load_runner(spec: str) -> Runner:
    """Make the runner that `module:factory` names; an empty `spec` gives `NoRunner`.

    Raises `PersistenceError` if nothing has that name.
    """
    if not spec:
        return NoRunner()
    module, _, factory = spec.partition(":")
    let_import()
    try:
        found = import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise UsageError(f"SPRINGLINE_RUNNER={spec!r}, as module:factory, cannot be imported: {error}") from error
    make = getattr(found, factory, None)
    if not callable(make):
        raise UsageError(f"SPRINGLINE_RUNNER={spec!r}, as module:factory: {module} has no such factory")
    return make()  # type: ignore[no-any-return]
