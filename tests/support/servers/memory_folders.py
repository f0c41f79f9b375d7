"""What homes of tests have in memory, outside of every test's folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from springline.persistence.private_files import default_cache_folder


def remove_memory_of(home: Path) -> None:
    """Remove the default cache of a home, its streams' states in it, and the ramdisks of its Alluxio."""
    cache = default_cache_folder(home)
    for folder in (cache, cache.with_name(f"{cache.name}-alluxio")):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_home(prefix: str) -> Iterator[Path]:
    """A folder for homes of servers, which goes in the end, and what it has in memory with it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    remove_memory_of(folder)


def remove_memory_below(base: Path) -> None:
    """The same for whatever folder below `base` was a home."""
    caches = {folder.name for folder in default_cache_folder(base).parent.glob("springline-*")}
    for home in base.rglob("*"):
        if default_cache_folder(home).name in caches:
            remove_memory_of(home)
