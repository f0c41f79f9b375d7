"""Springline's integration with Airflow: connections, operators, triggers, and the listener of DAG runs.

These names are public, for DAG files; each is imported on first use:

    persister_dag, maintenance_dag, recover_dag    the DAGs that persist, maintain and recover datasets
    dataset_tasks                                  the tasks of a DAG, and their edges, from declared operations
    DatasetOperator                                one task: one operation
    PersisterOperator, MaintenanceOperator, RecoverOperator
                                                   the operators of these DAGs
    stream_dags, stream_range_dags                 the DAGs of stream jobs; these and the next need springline[streams]
    StreamOperator, StreamRangeOperator, CompletenessOperator
                                                   a stream as a task, a range of it, and waiting until it is complete
    DailyUntil                                     a schedule: daily until a last day
    RETRY_ARGS                                     arguments of a task that is retried while a server is unavailable

Everything else below this package is private and may change.

Example:
    >>> from springline.airflow import RETRY_ARGS
    >>> RETRY_ARGS["retries"]
    6
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import lazy_attributes

if TYPE_CHECKING:
    from springline.airflow.dags.maintenance import maintenance_dag, persister_dag, recover_dag
    from springline.airflow.dags.streams import stream_dags, stream_range_dags
    from springline.airflow.operators.dataset import DatasetOperator
    from springline.airflow.operators.persister import MaintenanceOperator, PersisterOperator
    from springline.airflow.operators.recover import RecoverOperator
    from springline.airflow.operators.reprocess import StreamRangeOperator
    from springline.airflow.operators.stream import StreamOperator
    from springline.airflow.retry_args import RETRY_ARGS
    from springline.airflow.sensors.stream_complete import CompletenessOperator
    from springline.airflow.task_factory import dataset_tasks
    from springline.airflow.timetables import DailyUntil

__all__ = [
    "RETRY_ARGS", "CompletenessOperator", "DailyUntil", "DatasetOperator", "MaintenanceOperator", "PersisterOperator",
    "RecoverOperator", "StreamOperator", "StreamRangeOperator", "dataset_tasks", "maintenance_dag",
    "persister_dag", "recover_dag", "stream_dags", "stream_range_dags",
]  # fmt: skip

_MODULES = {
    "DailyUntil": "springline.airflow.timetables",
    "DatasetOperator": "springline.airflow.operators.dataset",
    "MaintenanceOperator": "springline.airflow.operators.persister",
    "RETRY_ARGS": "springline.airflow.retry_args",
    "PersisterOperator": "springline.airflow.operators.persister",
    "RecoverOperator": "springline.airflow.operators.recover",
    "CompletenessOperator": "springline.airflow.sensors.stream_complete",
    "StreamOperator": "springline.airflow.operators.stream",
    "StreamRangeOperator": "springline.airflow.operators.reprocess",
    "dataset_tasks": "springline.airflow.task_factory",
    "maintenance_dag": "springline.airflow.dags.maintenance",
    "persister_dag": "springline.airflow.dags.maintenance",
    "recover_dag": "springline.airflow.dags.maintenance",
    "stream_dags": "springline.airflow.dags.streams",
    "stream_range_dags": "springline.airflow.dags.streams",
}
__getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
