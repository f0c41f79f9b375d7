"""What tests of your own pipelines, steps and stores need; every name here is public.

    platform_in(folder)            a platform in a folder, with its cache in memory, that no setting reaches
    LinesRunner                    runs operations that are plain functions over lines of text
    make_dataset, lines_of         write a dataset as a task would, and read it
    StageRun, JobRun               run a step, or a declared job, in this process: feed messages, read results
    MemoryLog, Killed              the topics of such a run, as lists; and the death of its process
    StoreSuite, UnderStoreSuite    what every store has to do, as tests to be inherited

Nothing here starts a server, Spark or Airflow. `pip install 'springline[testing]'` brings pytest, which the two suites
need, and nothing else here does; `StageRun`, `JobRun` and `MemoryLog` need `springline[streams]`.

Example:
    >>> from tempfile import TemporaryDirectory
    >>> from springline.testing import lines_of, make_dataset, platform_in
    >>> with TemporaryDirectory() as folder, platform_in(folder) as platform:
    ...     _ = make_dataset(platform, "words/load", lines=["to be", "or not to be"])
    ...     lines_of(platform, "words/load")
    ['to be', 'or not to be']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from springline.testing.job_run import JobRun, StageRun
    from springline.testing.lines import LinesRunner, lines_of, make_dataset
    from springline.testing.memory_log import Killed, MemoryLog
    from springline.testing.platform import platform_in
    from springline.testing.store_suite import StoreSuite
    from springline.testing.under_store_suite import UnderStoreSuite

__all__ = [
    "JobRun", "Killed", "LinesRunner", "MemoryLog", "StageRun", "StoreSuite", "UnderStoreSuite", "lines_of",
    "make_dataset", "platform_in",
]  # fmt: skip

_MODULES = {
    "JobRun": "job_run",
    "Killed": "memory_log",
    "LinesRunner": "lines",
    "MemoryLog": "memory_log",
    "StageRun": "job_run",
    "StoreSuite": "store_suite",
    "UnderStoreSuite": "under_store_suite",
    "lines_of": "lines",
    "make_dataset": "lines",
    "platform_in": "platform",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'springline.testing' has no attribute {name!r}")
    from springline.extras import import_late

    return getattr(import_late(f"springline.testing.{_MODULES[name]}", f"springline.testing.{name}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
