"""Operations over lines of text: a runner as small as it can be, and datasets that are written and read with it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from springline.persistence.errors import OperationError
from springline.persistence.model.dataset import Call, Dataset, Operation, Origin, Ref, Strategy, Written
from springline.persistence.platform import Platform

Function = Callable[[list[list[str]], Mapping[str, str]], list[str]]


def digest_of(lines: Sequence[str]) -> str:
    """The logical digest of lines: whatever their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def read_lines(uri: str) -> list[str]:
    """The lines of all files in the folder at a file:// URI."""
    folder = Path(uri.removeprefix("file://"))
    files = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    return [line for path in files for line in path.read_text().splitlines()]


def write_lines(uri: str, lines: Sequence[str]) -> None:
    """Write lines as one file into a folder that does not exist yet; the file's bytes differ at every call."""
    folder = Path(uri.removeprefix("file://"))
    folder.mkdir(parents=True)
    (folder / f"part-{uuid.uuid4().hex[:6]}.txt").write_text("".join(f"{line}\n" for line in lines))


class LinesRunner:
    """Runs operations that are plain functions over lines of text: a `Runner` without Spark.

    Attributes:
        ran: the names of the operations that were run, in their order.
        read: reads the lines of the folder at a URI; on this machine, unless a test gives another function.
        write: writes lines into the folder at a URI, likewise.

    Raises:
        OperationError: from `run`, where the operation is not here at the version that is asked for, or a file cannot
            be read or written.

    Example:
        >>> from springline.testing import LinesRunner
        >>> runner = LinesRunner()
        >>> runner.add("count", lambda sources, params: [str(len(sources[0]))])
        >>> runner.operations()["count"].repeatable
        True
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Operation, Function]] = {}
        self.ran: list[str] = []
        self.read = read_lines
        self.write = write_lines

    def add(
        self, name: str, function: Function, *, idempotent: bool = True, version: str = "1", checkpoint: bool = False
    ) -> None:
        """Register a function, or its next version.

        Args:
            name: of the operation.
            function: given the lines of each source, and the parameters by name, it returns the lines of the output.
            idempotent: whether it is declared to give the same lines when it is run again.
            version: of the code; a new one stands for changed code.
            checkpoint: whether its output is worth keeping more than others.
        """
        self._known[name] = (Operation(name, version, idempotent, checkpoint), function)

    def operations(self) -> Mapping[str, Operation]:
        return {name: operation for name, (operation, _) in self._known.items()}

    def run(self, call: Call, sources: Sequence[str], output: str) -> Written:
        if call.name not in self._known or self._known[call.name][0].version != call.version:
            raise OperationError(f"{call.name} at version {call.version} is not here")
        self.ran.append(call.name)
        try:
            lines = self._known[call.name][1]([self.read(uri) for uri in sources], call.params)
            self.write(output, lines)
        except OSError as error:
            raise OperationError(f"{call.name}: {error}") from error
        return Written(rows=len(lines), digest=digest_of(lines), seconds=0.01)


def make_dataset(
    platform: Platform,
    path: str,
    operation: str = "",
    sources: Sequence[str] = (),
    *,
    lines: Sequence[str] = (),
    strategy: Strategy = Strategy.ASYNC_STORE,
    origin: Origin = Origin(),
    wanted: bool = True,
    params: Mapping[str, str] | None = None,
) -> Dataset:
    """Write a dataset as a task would: by an operation of the platform's runner, or from `lines` without one.

    Args:
        platform: an open platform, such as `platform_in` gives.
        path: of the dataset, such as `words/load`.
        operation: of the platform's runner; empty: the dataset holds `lines`, and nothing can make it again.
        sources: the paths that the operation reads, in their order; their newest generations are read.
        lines: what is written where there is no operation.
        strategy: when it is persisted.
        origin: the DAG run and the task that it is written for.
        wanted: whether anybody wants it in the under-store.
        params: of the operation, by name.

    Returns:
        The generation, committed.

    Raises:
        OperationError: the operation did not end well.
        NeverWrittenError: nothing was ever written to one of the sources.

    Example:
        >>> with platform_in(folder) as platform:
        ...     str(make_dataset(platform, "words/load", lines=["to be"]).ref)
        'words/load@1'
    """
    known = platform.runner.operations()
    platform.store.register_operations(known.values())
    call = Call(operation, known[operation].version, params or {}) if operation else None
    refs: list[Ref] = [platform.catalog.resolve(source, origin).ref for source in sources]
    with platform.store.write(
        path, call=call, sources=refs, strategy=strategy, origin=origin, wanted=wanted
    ) as writing:
        if call is None:
            write_lines(writing.uri, lines)
            writing.done(Written(len(lines), digest_of(lines), 0.01))
        else:
            with ExitStack() as held:
                readings = [
                    held.enter_context(platform.store.read(ref.path, generation=ref.generation)) for ref in refs
                ]
                writing.done(platform.runner.run(call, [reading.uri for reading in readings], writing.uri))
    return writing.dataset


def lines_of(platform: Platform, path: str, origin: Origin = Origin()) -> list[str]:
    """Read the lines of the newest generation of a path, as a task would: what is lost is brought back first.

    Args:
        platform: an open platform.
        path: of the dataset.
        origin: the DAG run that reads, and sees what was there when it began; by default none, which sees the newest.

    Returns:
        The lines of all files, without their ends.

    Raises:
        NeverWrittenError: nothing was ever written to the path.
        IrrecoverableError: its bytes are lost, and nothing can bring them back.

    Example:
        >>> with platform_in(folder) as platform:
        ...     _ = make_dataset(platform, "words/load", lines=["to be", "or not"])
        ...     lines_of(platform, "words/load")
        ['to be', 'or not']
    """
    with platform.store.read(path, origin=origin) as reading:
        read: Callable[[str], list[str]] = getattr(platform.runner, "read", read_lines)
        return read(reading.uri)
