"""What is imported when it is asked for, and which extra brings what it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

# What brings what modules need, by how their names begin.
_EXTRAS = {
    "springline.airflow.api": "streams",  # the resources about streams; the others need nothing more than the API does
    "springline.airflow.dags.streams": "streams",
    "springline.airflow.operators.reprocess": "streams",
    "springline.airflow.operators.stream": "streams",
    "springline.airflow.sensors": "streams",
    "springline.airflow": "airflow",
    "springline.testing.job_run": "streams",
    "springline.testing.memory_log": "streams",
    "springline.testing": "testing",
    "springline.spark_jobs.streaming": "streams",
    "springline.spark_jobs": "spark",
    "springline.services": "servers",
    "springline": "all",
}


class MissingExtraError(ImportError):
    """Something needs a package that an extra brings; names both."""

    exit_status = 1


def import_late(module: str, what: str) -> ModuleType:
    """A module of ours, for `what`; raises `MissingExtraError` if a package of others that it needs is not there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("springline"):
            raise
        extra = next(extra for beginning, extra in _EXTRAS.items() if module.startswith(beginning))
        raise MissingExtraError(
            f"{what} needs {error.name}, which is not installed: pip install 'springline[{extra}]'"
        ) from error


def late_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose names are imported when they are asked for.

    `modules` has the module of each name.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_late(modules[name], f"{package}.{name}"), name)

    def __dir__() -> list[str]:
        return [*vars(sys.modules[package]), *modules]

    return __getattr__, __dir__
