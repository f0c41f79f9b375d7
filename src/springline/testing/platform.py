"""A platform in a folder, with its own catalog, cache and under-store, isolated from the environment's settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from springline.persistence.engine.runner import Runner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.private_files import default_cache_folder
from springline.persistence.profile import PREFIX
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner

# Everything is persisted like a large dataset, and failures are retried without delay.
QUICK_SETTINGS: Mapping[str, Any] = {"min_operation_bytes": 0, "retry_seconds": 0, "sync_timeout": 0}


@contextmanager
def platform_in(
    folder: Path | str, *, runner: Runner | None = None, actor: str = "test", **settings: Any
) -> Iterator[Platform]:
    """Open a platform with catalog and under-store in `folder` and its cache in memory; close it on exit.

    The cache, a folder in /dev/shm if that exists, is removed on exit too. So a second platform in the same folder
    finds the catalog and the persisted data, and everything else lost, as after a fault. Variables `SPRINGLINE_…`,
    those of OpenLineage and the profile are ignored, so that a test cannot reach the stores or collectors that they
    name.

    Args:
        folder: a folder that only this test uses, such as pytest's `tmp_path`; the platform's home is `home` in it.
        runner: executes operations; default: an empty `LinesRunner`.
        actor: the name that the catalog records with each change.
        settings: fields of `springline.Settings` by name, sizes in bytes and times in seconds. The defaults of
            `min_operation_bytes`, `retry_seconds` and `sync_timeout` are 0 here.

    Yields:
        The `Platform`: `store`, `catalog`, `persister`, `restorer`, `cache`, `under`, `runner` and the others.

    Raises:
        SettingsError: a setting has an invalid value.

    Example:
        >>> from springline.testing import LinesRunner, lines_of, make_dataset, platform_in
        >>> runner = LinesRunner()
        >>> runner.add("shout", lambda sources, params: [line.upper() for line in sources[0]])
        >>> with platform_in(folder, runner=runner) as platform:
        ...     _ = make_dataset(platform, "words/load", lines=["to be"])
        ...     _ = make_dataset(platform, "words/shout", "shout", ["words/load"])
        ...     _ = platform.persister.drain()
        ...     lines_of(platform, "words/shout"), platform.catalog.resolve("words/shout").persisted
        (['TO BE'], True)
    """
    home = Path(folder).resolve() / "home"
    with _unset_settings():
        platform_settings = Settings(**{"home": home, **QUICK_SETTINGS, **settings})
        runner = LinesRunner() if runner is None else runner
        platform = open_platform(platform_settings, runner=runner, actor=actor, lineage_factory=lambda policy: None)
    try:
        yield platform
    finally:
        platform.close()
        shutil.rmtree(default_cache_folder(home), ignore_errors=True)


@contextmanager
def _unset_settings() -> Iterator[None]:
    """Remove all settings from the environment inside the context."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    for name in settings:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(settings)
