"""Makes the tasks and edges of a DAG from the registry of operations, so that the two cannot disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import TaskGroup

from springline.airflow.operators.dataset import DatasetOperator
from springline.spark_jobs.errors import UnknownOperationError
from springline.spark_jobs.operations import RegisteredOperation, Registry, load_operations
from springline.spark_jobs.settings import JobSettings


def dataset_tasks(registry: Registry | None = None, prefix: str = "", **common: Any) -> dict[str, DatasetOperator]:
    """A task for every operation whose name begins with `prefix`, by the operation's name, with their edges.

    The operations are those of `registry`; without one, those that installed packages bring and that
    `SPRINGLINE_OPERATIONS` names. Tasks stand in one group a stage, which is the module of their operations. `common`
    is given to each of them, such as `retries`. Call it within a DAG. Raises `UnknownOperationError` if none begins so.

    Example:
        >>> from airflow.sdk import DAG
        >>> from springline.airflow import PATIENT, dataset_tasks
        >>> with DAG("shop", schedule="@daily"):
        ...     tasks = dataset_tasks(prefix="shop.", **PATIENT)  # doctest: +SKIP
    """
    registry = load_operations(JobSettings().operations) if registry is None else registry
    chosen = [operation for operation in registry.in_order() if operation.name.startswith(prefix)]
    if not chosen:
        known = ", ".join(registry.names()) or "none"
        raise UnknownOperationError(
            f"no operation's name begins with {prefix!r}; registered: {known}. Name its module in SPRINGLINE_OPERATIONS"
            " where Airflow runs, or install the package that brings it"
        )
    groups: dict[str, TaskGroup] = {}
    tasks: dict[str, DatasetOperator] = {}
    for operation in chosen:
        stage = stage_of(operation)
        if stage not in groups:
            groups[stage] = TaskGroup(stage, prefix_group_id=False)
        task_id = operation.name.removeprefix(prefix)
        tasks[operation.name] = DatasetOperator.of(operation, task_id=task_id, task_group=groups[stage], **common)
    for name, makers in edges_of(registry, tasks).items():
        for maker in makers:
            tasks[maker] >> tasks[name]
    return tasks


def edges_of(registry: Registry, tasks: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By operation, the operations among `tasks` that make its sources."""
    return {name: tuple(maker for maker in registry.edges[name] if maker in tasks) for name in tasks}


def stage_of(operation: RegisteredOperation) -> str:
    """The part of the workflow that an operation belongs to: the file that declares it."""
    return operation.function.__module__.rpartition(".")[2]
