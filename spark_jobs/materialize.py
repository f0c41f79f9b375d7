"""Producing a dataset: one registered operation, applied to generations of datasets, makes a generation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from springline.persistence.model.dataset import Dataset, Origin, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.errors import JobError
from springline.spark_jobs.runner import SparkRunner


def produce(
    platform: Platform,
    name: str,
    params: Mapping[str, str],
    *,
    origin: Origin = Origin(),
    strategy: Strategy = Strategy.ASYNC_AND_SYNC,
) -> Dataset:
    """Apply the operation `name` to the newest generations that `origin` may see, and commit what it makes.

    What an earlier try of the same task committed from the same sources is taken as it is. Sources are held while
    they are read; lost ones are brought back first. Raises `UnknownDatasetError`, `IrrecoverableError`,
    `OperationError`.
    """
    runner = platform.runner
    if not isinstance(runner, SparkRunner):
        raise JobError(
            "this platform runs no operations: open it with a SparkRunner, or set"
            " SPRINGLINE_RUNNER=springline.spark_jobs.runner:make_runner"
        )
    declared = runner.registry.get(name)
    call = runner.call(name, params)
    paths = declared.paths(call.params)
    store = platform.store
    store.register_operations(runner.operations().values())
    if origin.run_id:
        store.begin_run(origin)
    with ExitStack() as held:
        readings = [held.enter_context(store.read(path, origin=origin)) for path in paths.sources]
        sources = [reading.ref for reading in readings]
        if adopted := store.adoptable(paths.output, call=call, sources=sources, origin=origin):
            return adopted
        writing = held.enter_context(
            store.write(
                paths.output,
                call=call,
                sources=sources,
                strategy=strategy,
                origin=origin,
                checkpoint=declared.checkpoint,
                wanted=not declared.temporary,
            )
        )
        writing.done(runner.run(call, [reading.uri for reading in readings], writing.uri))
    return writing.dataset
