"""Fixtures that several suites share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner
from tests.support.servers.memory_folders import remove_memory_below

# A machine that stands still for a moment is no fault of what is tested; whole tests have a time.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
# For tests marked `fuzz`, which say no number of examples themselves: `make fuzz` chooses this profile.
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "20000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


class FailureLines:
    """Prints a failure when it occurs: of a run that is ended before its summary, they are all that is known."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print which test failed, when, and the first lines of its error."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            errors = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            head = f"\n{report.nodeid}: {report.when} failed after {report.duration:.0f} s"
            reporter.write_line("\n".join([head, *(line[:600] for line in errors[:6])]))


def pytest_configure(config: pytest.Config) -> None:
    """Print failures at once, in the process that collects the reports."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(FailureLines(config))


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that are run with a home in a test's folder make their cache elsewhere."""
    yield
    remove_memory_below(tmp_path_factory.getbasetemp())


@pytest.fixture
def runner() -> LinesRunner:
    """Four operations over lines: load and shout repeat themselves, salt does not and says so, liar does not say so."""
    import random

    lines = LinesRunner()
    lines.add("load", lambda sources, params: [f"line {i}" for i in range(100)], idempotent=False)
    lines.add("shout", lambda sources, params: [line.upper() for line in sources[0]])
    lines.add("count", lambda sources, params: [str(len(sources[0]))])
    lines.add("salt", lambda sources, params: [f"{line} {random.random()}" for line in sources[0]], idempotent=False)
    lines.add("liar", lambda sources, params: [f"{line} {random.random()}" for line in sources[0]])
    return lines


@pytest.fixture
def catalog_url() -> str:
    """Where the platforms of `open_at` keep their catalog: empty for a file in their home."""
    return ""


@pytest.fixture
def open_at(tmp_path: Path, runner: LinesRunner, catalog_url: str) -> Iterator[Callable[..., Platform]]:
    """Opens a platform in this test's folder, with the settings given; several may be open at once."""
    opened = []

    def open_(**settings: object) -> Platform:
        defaults = {
            "home": tmp_path / "home",
            "catalog_url": catalog_url,
            "cache_uri": f"file://{tmp_path}/cache",
            "min_operation_bytes": 0,
            "retry_seconds": 0,
            "sync_timeout": 0,
        }
        platform = open_platform(Settings(**{**defaults, **settings}), runner=runner, actor="test")  # type: ignore[arg-type]
        opened.append(platform)
        return platform

    yield open_
    for platform in opened:
        platform.close()


@pytest.fixture
def platform(open_at: Callable[..., Platform]) -> Platform:
    """A platform of its own for each test."""
    return open_at()
