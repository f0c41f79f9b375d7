"""A small workflow over lines, for tests of faults: a landing file is loaded, and three steps follow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from springline.persistence.errors import PersistenceError
from springline.persistence.model.dataset import Call, Dataset, Origin, Phase, Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, digest_of, lines_of, read_lines

STEPS = (("landing", "etl/load", ()), ("clean", "etl/clean", ("etl/load",)), ("count", "etl/count", ("etl/clean",)),
         ("join", "etl/join", ("etl/load", "etl/clean")))  # fmt: skip
LINES = [f"flight {i} from {'ABC'[i % 3]}" for i in range(200)]


def workflow_runner(at: Callable[[str], None] = lambda operation: None) -> LinesRunner:
    """The operations of the workflow; `at` is called with each one while it runs, its output half written."""
    runner = LinesRunner()

    def during(name: str, lines: list[str]) -> list[str]:
        at(name)
        return lines

    runner.add(
        "landing", lambda _, params: during("landing", Path(params["file"]).read_text().splitlines()), idempotent=False
    )
    runner.add("clean", lambda sources, _: during("clean", [line.upper() for line in sources[0]]))
    runner.add("count", lambda sources, _: during("count", [f"{c} {_count(sources[0], c)}" for c in "ABC"]))
    runner.add("join", lambda sources, _: during("join", sorted([*sources[0], *sources[1]])))
    return runner


def land(folder: Path) -> Path:
    """Put the landing file down."""
    file = folder / "landing.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


def run_workflow(
    platform: Platform, landing: Path, *, strategy: Strategy, origin: Origin = Origin("etl", "run 1"), tries: int = 3
) -> dict[str, Dataset]:
    """Run all steps as tasks of a DAG run, each tried again if it fails, and adopting what a failed try committed."""
    datasets = {}
    platform.store.register_operations(platform.runner.operations().values())
    platform.store.begin_run(origin)
    for operation, path, sources in STEPS:
        task = Origin(origin.dag_id, origin.run_id, operation)
        for attempt in range(tries):
            try:
                datasets[path] = _task(platform, landing, operation, path, sources, strategy, task)
                break
            except PersistenceError:
                if attempt + 1 == tries:
                    raise
    platform.catalog.end_run(origin, "success")
    return datasets


def digests_without_faults() -> dict[str, str]:
    """The digest that each output has when nothing goes wrong."""
    clean = [line.upper() for line in LINES]
    outputs = {"etl/load": LINES, "etl/clean": clean, "etl/join": [*LINES, *clean]}
    outputs["etl/count"] = [f"{c} {_count(clean, c)}" for c in "ABC"]
    return {path: digest_of(lines) for path, lines in outputs.items()}


def digests_now(platform: Platform) -> dict[str, str]:
    """The digest of what is read now at each output."""
    return {path: digest_of(lines_of(platform, path)) for _, path, _ in STEPS}


def digests_below(platform: Platform) -> dict[str, str]:
    """The digest of the copies in the under-store alone."""
    datasets = [platform.catalog.resolve(path) for _, path, _ in STEPS]
    read = getattr(platform.runner, "read", read_lines)
    return {d.ref.path: digest_of(read(platform.under.uri(d.under_location))) for d in datasets if d.persisted}


def _task(
    platform: Platform, landing: Path, operation: str, path: str, sources: tuple[str, ...], strategy: Strategy,
    task: Origin,
) -> Dataset:  # fmt: skip
    store = platform.store
    params = {"file": os.fspath(landing)} if operation == "landing" else {}
    call = Call(operation, "1", params)
    refs = [platform.catalog.resolve(source, task).ref for source in sources]
    if dataset := store.committed_by_earlier_try(path, call=call, sources=refs, origin=task):
        return dataset
    with store.write(path, call=call, sources=refs, strategy=strategy, origin=task) as writing:
        writing.mark_complete(platform.runner.run(call, list(_uris(platform, refs)), writing.uri))
    return writing.dataset


def _uris(platform: Platform, refs: list[Ref]) -> Iterator[str]:
    for ref in refs:
        with platform.store.read(ref.path, generation=ref.generation) as reading:
            yield reading.uri


def _count(lines: list[str], letter: str) -> int:
    return sum(line.endswith(letter) for line in lines)


def only_whole_copies_are_left(platform: Platform, copies: list[str]) -> bool:
    """Whether the copies in the under-store are those that the catalog names, and no other."""
    named = [d.under_location for d in platform.catalog.find(phase=Phase.COMMITTED) if d.persisted]
    return sorted(named) == sorted(copies)
