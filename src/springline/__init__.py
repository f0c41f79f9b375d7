"""Data workflows and streams at memory speed; results are copied to durable storage in the background.

These names are public. Each is imported on first access, so that unused ones cost nothing.

    open_platform, Platform, Settings      a platform (store, catalog, persister, recovery), and its settings
    Dataset, Ref, Origin, Strategy         a generation of a dataset, its name, the task that wrote it, when to persist
    Runner, Operation, Call, OperationResult   executes operations; a declared operation, one application, its result
    operation, Context, load_operations    operations on Spark: the decorator, their first argument, the registry
    spark_path                             converts a path or URI for Spark's readers
    Backend, UnderStore, ListedBackend, File, Manifest, FolderEntry, StoreRequest, Link, limit_bandwidth, checked_below,
    files_below                            to implement a custom store
    Policy, Score, Lineage, CostModel, order_by_priority, format_bytes
                                           to implement a custom policy for the order of persisting
    Tracker                                tracks the records of a topology that is not Springline's

The public API consists of the names in `__all__` of this package, and of `springline.errors`, `springline.testing`,
`springline.airflow`, `springline.stream_kinds` and `springline.formats`. Every other name is private and may change.

Example:
    >>> from springline import Strategy
    >>> Strategy("async_and_sync").value
    'async_and_sync'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import lazy_attributes

if TYPE_CHECKING:
    from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
    from springline.persistence.backends.listing import FolderEntry, ListedBackend, checked_below, files_below
    from springline.persistence.backends.registry import StoreRequest
    from springline.persistence.backends.spec import Backend, UnderStore
    from springline.persistence.decisions.priority import Policy, Score, order_by_priority
    from springline.persistence.engine.runner import Runner
    from springline.persistence.model.cost_model import CostModel
    from springline.persistence.model.dataset import Call, Dataset, Operation, OperationResult, Origin, Ref, Strategy
    from springline.persistence.model.lineage import Lineage
    from springline.persistence.model.manifest import File, Manifest
    from springline.persistence.platform import Platform, open_platform
    from springline.persistence.settings import Settings
    from springline.persistence.text.formatting import format_bytes
    from springline.spark_jobs.operations import Context, load_operations, operation
    from springline.spark_jobs.parquet_io import spark_path
    from springline.spark_jobs.streaming.tracker.client import Tracker

__version__ = "0.1.0"
__all__ = [
    "Backend",
    "Call",
    "Context",
    "CostModel",
    "Dataset",
    "File",
    "FolderEntry",
    "Lineage",
    "Link",
    "ListedBackend",
    "Manifest",
    "Operation",
    "OperationResult",
    "Origin",
    "Platform",
    "Policy",
    "Ref",
    "Runner",
    "Score",
    "Settings",
    "StoreRequest",
    "Strategy",
    "Tracker",
    "UnderStore",
    "checked_below",
    "files_below",
    "format_bytes",
    "limit_bandwidth",
    "load_operations",
    "open_platform",
    "operation",
    "order_by_priority",
    "spark_path",
]  # fmt: skip

_NAMES = {
    "persistence.backends.bandwidth_limit": ("Link", "limit_bandwidth"),
    "persistence.backends.listing": ("FolderEntry", "ListedBackend", "checked_below", "files_below"),
    "persistence.backends.registry": ("StoreRequest",),
    "persistence.backends.spec": ("Backend", "UnderStore"),
    "persistence.decisions.priority": ("Policy", "Score", "order_by_priority"),
    "persistence.engine.runner": ("Runner",),
    "persistence.model.cost_model": ("CostModel",),
    "persistence.model.dataset": ("Call", "Dataset", "Operation", "OperationResult", "Origin", "Ref", "Strategy"),
    "persistence.model.lineage": ("Lineage",),
    "persistence.model.manifest": ("File", "Manifest"),
    "persistence.platform": ("Platform", "open_platform"),
    "persistence.settings": ("Settings",),
    "persistence.text.formatting": ("format_bytes",),
    "spark_jobs.operations": ("Context", "load_operations", "operation"),
    "spark_jobs.parquet_io": ("spark_path",),
    "spark_jobs.streaming.tracker.client": ("Tracker",),
}
_MODULES = {name: f"springline.{module}" for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
