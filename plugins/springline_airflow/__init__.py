"""Everything of Springline that knows Airflow: connections, operators, triggers, the listener of DAG runs.

These names are public, for DAG files; each is imported when it is asked for:

    dataset_tasks           the tasks of a DAG, and their edges, from declared operations
    CompletenessOperator    waits until a range of a stream is complete
    PATIENT                 arguments of a task that is tried again while a server is away

Whatever else is imported from below is private and may change.

Example:
    >>> from springline.airflow import PATIENT
    >>> PATIENT["retries"]
    6
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from springline.airflow.retry_args import PATIENT
    from springline.airflow.sensors.stream_complete import CompletenessOperator
    from springline.airflow.task_factory import dataset_tasks

__all__ = ["PATIENT", "CompletenessOperator", "dataset_tasks"]

_MODULES = {"CompletenessOperator": "sensors.stream_complete", "PATIENT": "retry_args", "dataset_tasks": "task_factory"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'springline.airflow' has no attribute {name!r}")
    from springline.extras import import_late

    return getattr(import_late(f"springline.airflow.{_MODULES[name]}", f"springline.airflow.{name}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
