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

_COUNT = "springline.spark_jobs.streaming.wordcount.count"


class _AfterCount(MetaPathFinder):
    """Puts a leaky step in the place of that which counts words, when its module has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _COUNT:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.loader is not None
        plain = spec.loader.exec_module

        def execute(module: ModuleType) -> None:
            plain(module)
            _leak(module)

        spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def _leak(module: ModuleType) -> None:
    from tests.support.streams.leaky_stages import Leaks, Leaky

    leaks, count = Leaks(**json.loads(os.environ["SPRINGLINE_TEST_LEAKS"])), module.Count

    def leaky(**arguments: Any) -> Leaky:
        return Leaky(count(**arguments), leaks)

    module.Count = leaky  # type: ignore[attr-defined]


if "SPRINGLINE_TEST_LEAKS" in os.environ:
    sys.meta_path.insert(0, _AfterCount())
