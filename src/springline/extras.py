"""Lazy imports, and which extra contains a missing package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

# The extra that a module needs, by prefix of the module's name; the first match counts.
_EXTRAS = {
    "springline.airflow.api": "streams",  # for the resources about streams; the others need nothing beyond the API
    "springline.airflow.dags.streams": "streams",
    "springline.airflow.operators.reprocess": "streams",
    "springline.airflow.operators.stream": "streams",
    "springline.airflow.sensors": "streams",
    "springline.airflow.content": "spark",
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
    """A feature needs a package that is not installed; the message names the package and its extra."""

    exit_status = 1


def import_lazily(module: str, feature: str) -> ModuleType:
    """Import a module of Springline, for `feature`; raises `MissingExtraError` if a third-party package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("springline"):
            raise
        extra = next(extra for beginning, extra in _EXTRAS.items() if module.startswith(beginning))
        raise MissingExtraError(
            f"{feature} needs {error.name}, which is not installed: pip install 'springline[{extra}]'"
        ) from error


def lazy_attributes(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package whose names are imported on first access.

    `modules` maps each name to its module.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_lazily(modules[name], f"{package}.{name}"), name)

    def __dir__() -> list[str]:
        return [*vars(sys.modules[package]), *modules]

    return __getattr__, __dir__
