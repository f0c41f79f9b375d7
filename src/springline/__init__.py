"""Data workflows and streams at memory speed, made durable behind the job's back.

These names are public; each is imported when it is asked for, so that none costs what it does not need.

    open_platform, Platform, Settings      a platform: its store, catalog, persister and recovery; what it is opened by
    Dataset, Ref, Origin, Strategy         a generation of a dataset, its name, its task; when it is persisted
    Runner, Operation, Call, Written       what runs operations, and what it declares, is asked for and has made
    operation, Context, load_operations    operations on Spark: declared, what they are given, and all that there are
    spark_path                             a path or URI as Spark's readers take it
    Backend, ListedBackend, File, Manifest, Entry, StoreRequest, Link, limit_bandwidth, checked_below, files_below
                                           a store of your own
    Policy, Score, Lineage, Costs, in_turn, say_bytes
                                           an order of persisting of your own
    Tracker                                tracks the records of a topology that is not ours

Public are the names in `__all__` of this package, and of `springline.errors`, `springline.testing`,
`springline.airflow` and `springline.stream_kinds`; whatever else is imported from below is private and may change.

Example:
    >>> from springline import Strategy
    >>> Strategy("async_and_sync").value
    'async_and_sync'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import late_names

if TYPE_CHECKING:
    from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
    from springline.persistence.backends.listing import Entry, ListedBackend, checked_below, files_below
    from springline.persistence.backends.registry import StoreRequest
    from springline.persistence.backends.spec import Backend, File, Manifest
    from springline.persistence.decisions.priority import Policy, Score, in_turn
    from springline.persistence.engine.runner import Runner
    from springline.persistence.model.cost_model import Costs
    from springline.persistence.model.dataset import Call, Dataset, Operation, Origin, Ref, Strategy, Written
    from springline.persistence.model.lineage import Lineage
    from springline.persistence.platform import Platform, open_platform
    from springline.persistence.settings import Settings
    from springline.persistence.text.formatting import say_bytes
    from springline.spark_jobs.operations import Context, load_operations, operation
    from springline.spark_jobs.parquet_io import spark_path
    from springline.spark_jobs.streaming.tracker.client import Tracker

__version__ = "0.1.0"
__all__ = [
    "Backend", "Call", "Context", "Costs", "Dataset", "Entry", "File", "Lineage", "Link", "ListedBackend",
    "Manifest", "Operation", "Origin", "Platform", "Policy", "Ref", "Runner", "Score", "Settings", "StoreRequest",
    "Strategy", "Tracker", "Written", "checked_below", "files_below", "in_turn", "limit_bandwidth",
    "load_operations", "open_platform", "operation", "say_bytes", "spark_path",
]  # fmt: skip

_NAMES = {
    "persistence.backends.bandwidth_limit": ("Link", "limit_bandwidth"),
    "persistence.backends.listing": ("Entry", "ListedBackend", "checked_below", "files_below"),
    "persistence.backends.registry": ("StoreRequest",),
    "persistence.backends.spec": ("Backend", "File", "Manifest"),
    "persistence.decisions.priority": ("Policy", "Score", "in_turn"),
    "persistence.engine.runner": ("Runner",),
    "persistence.model.cost_model": ("Costs",),
    "persistence.model.dataset": ("Call", "Dataset", "Operation", "Origin", "Ref", "Strategy", "Written"),
    "persistence.model.lineage": ("Lineage",),
    "persistence.platform": ("Platform", "open_platform"),
    "persistence.settings": ("Settings",),
    "persistence.text.formatting": ("say_bytes",),
    "spark_jobs.operations": ("Context", "load_operations", "operation"),
    "spark_jobs.parquet_io": ("spark_path",),
    "spark_jobs.streaming.tracker.client": ("Tracker",),
}
_MODULES = {name: f"springline.{module}" for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = late_names(__name__, _MODULES)
