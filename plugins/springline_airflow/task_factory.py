"""Makes the tasks and edges of a DAG from the registry of operations, so that both stay consistent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import TaskGroup

from springline.airflow.operators.dataset import DatasetOperator
from springline.spark_jobs.errors import UnknownOperationError
from springline.spark_jobs.operations import OperationRegistry, RegisteredOperation, load_operations
from springline.spark_jobs.settings import JobSettings


def dataset_tasks(
    registry: OperationRegistry | None = None, prefix: str = "", **common: Any
) -> dict[str, DatasetOperator]:
    """Return a task for every operation whose name begins with `prefix`, by the operation's name, with their edges.

    The operations are those of `registry`; without one, those of installed packages and of the modules in
    `SPRINGLINE_OPERATIONS`. Tasks are grouped by stage, which is the module of their operations. `common` arguments,
    such as `retries`, are passed to each task. Call it within a DAG. Raises `UnknownOperationError` if no name begins
    with `prefix`.

    Example:
        >>> from airflow.sdk import DAG
        >>> from springline.airflow import RETRY_ARGS, dataset_tasks
        >>> with DAG("shop", schedule="@daily"):
        ...     tasks = dataset_tasks(prefix="shop.", **RETRY_ARGS)  # doctest: +SKIP
    """
    registry = load_operations(JobSettings().operations) if registry is None else registry
    operations = [operation for operation in registry.topological_order() if operation.name.startswith(prefix)]
    if not operations:
        registered_names = ", ".join(registry.names()) or "none"
        raise UnknownOperationError(
            f"no operation has the prefix {prefix!r}; registered: {registered_names}. "
            f"Name its module in SPRINGLINE_OPERATIONS"
            " where Airflow runs, or install the package that brings it"
        )
    groups: dict[str, TaskGroup] = {}
    tasks: dict[str, DatasetOperator] = {}
    for operation in operations:
        stage = stage_of(operation)
        if stage not in groups:
            groups[stage] = TaskGroup(stage, prefix_group_id=False)
        task_id = operation.name.removeprefix(prefix)
        tasks[operation.name] = DatasetOperator.of(operation, task_id=task_id, task_group=groups[stage], **common)
    for name, makers in edges_of(registry, tasks).items():
        for maker in makers:
            tasks[maker] >> tasks[name]
    return tasks


def edges_of(registry: OperationRegistry, tasks: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return, by operation, the operations among `tasks` that make its sources."""
    return {name: tuple(maker for maker in registry.edges[name] if maker in tasks) for name in tasks}


def stage_of(operation: RegisteredOperation) -> str:
    """Return the workflow stage of an operation: the name of the module that declares it."""
    return operation.function.__module__.rpartition(".")[2]
