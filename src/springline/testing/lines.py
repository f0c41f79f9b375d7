"""Operations over lines of text: a minimal runner, and functions that write and read datasets with it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from springline.persistence.errors import OperationError
from springline.persistence.model.dataset import Call, Dataset, Operation, OperationResult, Origin, Ref, Strategy
from springline.persistence.model.manifest import is_reserved
from springline.persistence.platform import Platform

LineFunction = Callable[[list[list[str]], Mapping[str, str]], list[str]]


def digest_of(lines: Sequence[str]) -> str:
    """Return the logical digest of lines; it does not depend on their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def read_lines(uri: str) -> list[str]:
    """Read the lines of all files in the folder at a file:// URI."""
    folder = Path(uri.removeprefix("file://"))
    files = sorted(path for path in folder.iterdir() if not is_reserved(path.name))
    return [line for path in files for line in path.read_text().splitlines()]


def write_lines(uri: str, lines: Sequence[str]) -> None:
    """Write lines as one file into a folder that does not exist yet; the file's bytes differ at every call."""
    folder = Path(uri.removeprefix("file://"))
    folder.mkdir(parents=True)
    (folder / f"part-{uuid.uuid4().hex[:6]}.txt").write_text("".join(f"{line}\n" for line in lines))


class LinesRunner:
    """Runs operations that are plain functions over lines of text: a `Runner` without Spark.

    Attributes:
        executed_operations: the names of the operations that were run, in order.
        read: function that reads the lines of the folder at a URI; a test may replace it. By default it reads local
            files.
        write: function that writes lines into the folder at a URI; replaceable in the same way.

    Raises:
        OperationError: from `run`, if the operation is not registered at the requested version, or a file cannot be
            read or written.

    Example:
        >>> from springline.testing import LinesRunner
        >>> runner = LinesRunner()
        >>> runner.add("count", lambda sources, params: [str(len(sources[0]))])
        >>> runner.operations()["count"].repeatable
        True
    """

    def __init__(self) -> None:
        self._operations: dict[str, tuple[Operation, LineFunction]] = {}
        self.executed_operations: list[str] = []
        self.read = read_lines
        self.write = write_lines

    def add(
        self,
        name: str,
        function: LineFunction,
        *,
        idempotent: bool = True,
        version: str = "1",
        checkpoint: bool = False,
        output: str = "",
    ) -> None:
        """Register a function as an operation, or a new version of it.

        Args:
            name: name of the operation.
            function: takes the lines of each source and the parameters by name, and returns the lines of the output.
            idempotent: whether it is declared to return the same lines when it is run again.
            version: version of the code; changed code has a new one.
            checkpoint: whether its output is more important to keep than others.
            output: path template of its output, such as `etl/{ds}/clean`; empty: its paths follow no template.
        """
        self._operations[name] = (Operation(name, version, idempotent, checkpoint, output=output), function)

    def operations(self) -> Mapping[str, Operation]:
        return {name: operation for name, (operation, _) in self._operations.items()}

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        if call.name not in self._operations or self._operations[call.name][0].version != call.version:
            raise OperationError(f"{call.name} at version {call.version} is not registered")
        self.executed_operations.append(call.name)
        try:
            lines = self._operations[call.name][1]([self.read(uri) for uri in sources], call.params)
            self.write(output, lines)
        except OSError as error:
            raise OperationError(f"{call.name}: {error}") from error
        return OperationResult(rows=len(lines), digest=digest_of(lines), seconds=0.01)


def make_dataset(
    platform: Platform,
    path: str,
    operation: str = "",
    sources: Sequence[str] = (),
    *,
    lines: Sequence[str] = (),
    strategy: Strategy = Strategy.ASYNC_STORE,
    origin: Origin = Origin(),
    persist_requested: bool = True,
    params: Mapping[str, str] | None = None,
) -> Dataset:
    """Write a dataset as a task would: with an operation of the platform's runner, or from `lines` without one.

    Args:
        platform: an open platform, such as `platform_in` yields.
        path: path of the dataset, such as `words/load`.
        operation: operation of the platform's runner; if empty, the dataset contains `lines` and cannot be recomputed.
        sources: paths that the operation reads, in order; their newest generations are read.
        lines: the rows to write if there is no operation.
        strategy: when the dataset is persisted.
        origin: the DAG run and the task that write it.
        persist_requested: whether it is to be copied to the under-store.
        params: parameters of the operation, by name.

    Returns:
        The committed generation.

    Raises:
        OperationError: the operation failed.
        NeverWrittenError: nothing was ever written to one of the sources.

    Example:
        >>> with platform_in(folder) as platform:
        ...     str(make_dataset(platform, "words/load", lines=["to be"]).ref)
        'words/load@1'
    """
    operations = platform.runner.operations()
    platform.store.register_operations(operations.values())
    call = Call(operation, operations[operation].version, params or {}) if operation else None
    refs: list[Ref] = [platform.catalog.resolve(source, origin).ref for source in sources]
    with platform.store.write(
        path, call=call, sources=refs, strategy=strategy, origin=origin, persist_requested=persist_requested
    ) as writing:
        if call is None:
            write_lines(writing.uri, lines)
            writing.mark_complete(OperationResult(len(lines), digest_of(lines), 0.01))
        else:
            with ExitStack() as stack:
                readings = [
                    stack.enter_context(platform.store.read(ref.path, generation=ref.generation)) for ref in refs
                ]
                writing.mark_complete(platform.runner.run(call, [reading.uri for reading in readings], writing.uri))
    return writing.dataset


def lines_of(platform: Platform, path: str, origin: Origin = Origin()) -> list[str]:
    """Read the lines of the newest generation of a path, as a task would: a lost one is recovered first.

    Args:
        platform: an open platform.
        path: path of the dataset.
        origin: the DAG run that reads; it sees the generations that existed when it began. The default, no DAG run,
            sees the newest.

    Returns:
        The lines of all files, without line ends.

    Raises:
        NeverWrittenError: nothing was ever written to the path.
        IrrecoverableError: its data is lost and cannot be recovered.

    Example:
        >>> with platform_in(folder) as platform:
        ...     _ = make_dataset(platform, "words/load", lines=["to be", "or not"])
        ...     lines_of(platform, "words/load")
        ['to be', 'or not']
    """
    with platform.store.read(path, origin=origin) as reading:
        read: Callable[[str], list[str]] = getattr(platform.runner, "read", read_lines)
        return read(reading.uri)
