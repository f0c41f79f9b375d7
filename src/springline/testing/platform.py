"""A platform in a folder: its own catalog, cache and under-store, which no setting of the environment reaches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from springline.persistence.engine.runner import Runner
from springline.persistence.platform import Platform, default_cache, open_platform
from springline.persistence.profile import PREFIX
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner

# Everything is persisted as a large dataset is, and a failure is tried again without a pause.
QUICK: Mapping[str, Any] = {"small_bytes": 0, "retry_seconds": 0, "sync_patience": 0}


@contextmanager
def platform_in(
    folder: Path | str, *, runner: Runner | None = None, who: str = "test", **settings: Any
) -> Iterator[Platform]:
    """Open a platform whose catalog and under-store lie in `folder`, and its cache in memory; close it in the end.

    The cache, a folder in /dev/shm where there is one, is removed in the end too. So a second platform in the same
    folder finds the catalog and what was persisted, and everything else lost, as after a fault. Variables
    `SPRINGLINE_…`, those of OpenLineage and the profile are left out: a test reaches no store or collector that they
    lead to.

    Args:
        folder: a folder of the test's own, such as pytest's `tmp_path`; the platform's home is `home` in it.
        runner: what runs operations; without one it is an empty `LinesRunner`.
        who: the name that the catalog notes beside each change.
        settings: fields of `springline.Settings` by name, sizes in bytes and times in seconds. Unless they are given,
            `small_bytes`, `retry_seconds` and `sync_patience` are 0.

    Yields:
        The `Platform`: `store`, `catalog`, `persister`, `restorer`, `cache`, `under`, `runner` and the others.

    Raises:
        SettingsError: a setting has a value that it cannot have.

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
    with _without_settings():
        chosen = Settings(**{"home": home, **QUICK, **settings})
        runner = LinesRunner() if runner is None else runner
        platform = open_platform(chosen, runner=runner, who=who, lineage=lambda policy: None)
    try:
        yield platform
    finally:
        platform.close()
        shutil.rmtree(default_cache(home), ignore_errors=True)


@contextmanager
def _without_settings() -> Iterator[None]:
    """While inside, the environment names no setting."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    for name in settings:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(settings)
