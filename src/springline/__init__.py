"""Data workflows and streams at memory speed, made durable behind the job's back.

These names are public; each is imported when it is asked for, so that none costs what it does not need.

    open_platform(settings)        a platform: its store, catalog, persister and recovery
    Settings                       what a platform is opened with; read from SPRINGLINE_<NAME> where not given
    Strategy                       when a dataset is persisted
    Operation, Call, Written       what a runner declares, is asked for and has made
    Dataset, Ref                   a generation of a dataset, and its name
    operation, Context             declare an operation on Spark, and what it is given
    Tracker                        tracks the records of a topology that is not ours

Whatever else is imported from below is private and may change.

Example:
    >>> from springline import Strategy
    >>> Strategy("async_and_sync").value
    'async_and_sync'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from springline.persistence.model.dataset import Call, Dataset, Operation, Ref, Strategy, Written
    from springline.persistence.platform import open_platform
    from springline.persistence.settings import Settings
    from springline.spark_jobs.operations import Context, operation
    from springline.spark_jobs.streaming.tracker.client import Tracker

__version__ = "0.1.0"
__all__ = [
    "Call", "Context", "Dataset", "Operation", "Ref", "Settings", "Strategy", "Tracker", "Written", "open_platform",
    "operation",
]  # fmt: skip

_MODULES = {
    **dict.fromkeys(
        ("Call", "Dataset", "Operation", "Ref", "Strategy", "Written"), "springline.persistence.model.dataset"
    ),
    "Context": "springline.spark_jobs.operations",
    "Settings": "springline.persistence.settings",
    "Tracker": "springline.spark_jobs.streaming.tracker.client",
    "open_platform": "springline.persistence.platform",
    "operation": "springline.spark_jobs.operations",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'springline' has no attribute {name!r}")
    from springline.extras import import_late

    return getattr(import_late(_MODULES[name], f"springline.{name}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
