"""Test tools for your own pipelines, steps and stores; every name here is public.

    platform_in(folder)            a platform in a folder, with its cache in memory, isolated from all settings
    LinesRunner                    runs operations that are plain functions over lines of text
    make_dataset, lines_of         write a dataset as a task would, and read it
    StageRun, JobRun               run a step, or a declared job, in this process: feed messages, read results
    MemoryLog, KilledError         the topics of such a run, as lists; and a simulated crash of its process
    StoreSuite, UnderStoreSuite    conformance tests of stores, to be subclassed
    FormatSuite                    conformance tests of formats, to be subclassed

Nothing here starts a server, Spark or Airflow. `pip install 'springline[testing]'` installs pytest, which only the
suites need; `StageRun`, `JobRun`, `MemoryLog` and `FormatSuite` need `springline[streams]`.

Example:
    >>> from tempfile import TemporaryDirectory
    >>> from springline.testing import lines_of, make_dataset, platform_in
    >>> with TemporaryDirectory() as folder, platform_in(folder) as platform:
    ...     _ = make_dataset(platform, "words/load", lines=["to be", "or not to be"])
    ...     lines_of(platform, "words/load")
    ['to be', 'or not to be']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import lazy_attributes

if TYPE_CHECKING:
    from springline.testing.format_suite import FormatSuite
    from springline.testing.job_run import JobRun, StageRun
    from springline.testing.lines import LinesRunner, lines_of, make_dataset
    from springline.testing.memory_log import KilledError, MemoryLog
    from springline.testing.platform import platform_in
    from springline.testing.store_suite import StoreSuite
    from springline.testing.under_store_suite import UnderStoreSuite

__all__ = [
    "FormatSuite", "JobRun", "KilledError", "LinesRunner", "MemoryLog", "StageRun", "StoreSuite", "UnderStoreSuite",
    "lines_of", "make_dataset", "platform_in",
]  # fmt: skip

_MODULES = {
    "FormatSuite": "springline.testing.format_suite",
    "JobRun": "springline.testing.job_run",
    "KilledError": "springline.testing.memory_log",
    "LinesRunner": "springline.testing.lines",
    "MemoryLog": "springline.testing.memory_log",
    "StageRun": "springline.testing.job_run",
    "StoreSuite": "springline.testing.store_suite",
    "UnderStoreSuite": "springline.testing.under_store_suite",
    "lines_of": "springline.testing.lines",
    "make_dataset": "springline.testing.lines",
    "platform_in": "springline.testing.platform",
}
__getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
