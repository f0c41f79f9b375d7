"""What homes of tests have in memory, outside of every test's folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from springline.persistence.platform import default_cache


def remove_memory_of(home: Path) -> None:
    """Remove the default cache of a home, its streams' states in it, and the ramdisks of its Alluxio."""
    cache = default_cache(home)
    for folder in (cache, cache.with_name(f"{cache.name}-alluxio")):
        shutil.rmtree(folder, ignore_errors=True)


def remove_memory_below(base: Path) -> None:
    """The same for whatever folder below `base` was a home."""
    caches = {folder.name for folder in default_cache(base).parent.glob("springline-*")}
    for home in base.rglob("*"):
        if default_cache(home).name in caches:
            remove_memory_of(home)
