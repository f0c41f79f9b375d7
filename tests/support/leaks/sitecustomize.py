"""Found by every Python that has this folder on its path: lets the word count's steps leak, as the environment says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_STEPS = "springline.spark_jobs.streaming.wordcount.steps"


class _AfterSteps(MetaPathFinder):
    """Registers leaky steps when the module that registers the steps has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _STEPS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.loader is not None
        plain = spec.loader.exec_module

        def execute(module: ModuleType) -> None:
            plain(module)
            _register()

        spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def _register() -> None:
    from springline.spark_jobs.streaming.runtime.stage import register_step
    from springline.spark_jobs.streaming.wordcount.count import Count
    from tests.support.leaky_stages import Leaks, Leaky

    leaks = Leaks(**json.loads(os.environ["SPRINGLINE_TEST_LEAKS"]))

    def leaky(**arguments: Any) -> Leaky:
        return Leaky(Count(**arguments), leaks)

    register_step("wordcount.count", leaky)


if "SPRINGLINE_TEST_LEAKS" in os.environ:
    sys.meta_path.insert(0, _AfterSteps())
