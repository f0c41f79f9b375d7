"""Materializes a dataset: applies one registered operation to generations of its sources, and commits the output."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from springline.persistence.model.dataset import Dataset, Origin, Strategy
from springline.persistence.model.table_uri import split_version
from springline.persistence.platform import Platform
from springline.spark_jobs.errors import JobError
from springline.spark_jobs.runner import SparkRunner


def materialize(
    platform: Platform,
    name: str,
    params: Mapping[str, str],
    *,
    origin: Origin = Origin(),
    strategy: Strategy = Strategy.ASYNC_AND_SYNC,
) -> Dataset:
    """Apply the operation `name` to the newest generations that `origin` may see, and commit its output.

    Of each table that it reads, a DAG run reads one version: the newest one when its first task reads it. A generation
    that an earlier try of the same task committed from the same sources is reused. Sources are protected
    from eviction while they are read; lost ones are recovered first. Raises `UnknownDatasetError`,
    `IrrecoverableError`, `OperationError`.
    """
    runner = platform.runner
    if not isinstance(runner, SparkRunner):
        raise JobError(
            "this platform has no runner: open it with a SparkRunner, or set"
            " SPRINGLINE_RUNNER=springline.spark_jobs.runner:make_runner"
        )
    operation = runner.registry.get(name)
    store = platform.store
    store.register_operations(runner.operations().values())
    if origin.run_id:
        store.begin_run(origin)
    call = runner.call(name, params, _versions_in_run(platform, origin) if operation.tables else {})
    paths = operation.paths(call.params)
    with ExitStack() as stack:
        open_reads = [stack.enter_context(store.read(path, origin=origin)) for path in paths.sources]
        sources = [open_read.ref for open_read in open_reads]
        if committed_dataset := store.committed_by_earlier_try(paths.output, call=call, sources=sources, origin=origin):
            return committed_dataset
        open_write = stack.enter_context(
            store.write(
                paths.output,
                call=call,
                sources=sources,
                strategy=strategy,
                origin=origin,
                checkpoint=operation.checkpoint,
                persist_requested=not operation.temporary,
            )
        )
        open_write.mark_complete(runner.run(call, [reading.uri for reading in open_reads], open_write.uri))
    return open_write.dataset


def _versions_in_run(platform: Platform, origin: Origin) -> dict[str, str]:
    """Return the versions in which the DAG run of `origin` has read tables so far, by URI."""
    if not origin.run_id:
        return {}
    in_run = platform.catalog.find(origin=Origin(origin.dag_id, origin.run_id))
    names = [value for dataset in in_run if dataset.call for value in dataset.call.params.values()]
    return {uri: version for uri, version in map(split_version, names) if version}
