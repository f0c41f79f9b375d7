"""Fixtures that several suites share."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from springline.persistence.catalog.database import open_database
from springline.persistence.monitoring.logs import LOGGER
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner
from tests.support.servers.memory_folders import remove_memory_below

# A machine that stands still for a moment is no fault of what is tested; whole tests have a time.
# A run of the tests draws nothing at random, and a third of the examples that the nightly tests draw.
settings.register_profile("project", deadline=None, derandomize=True, max_examples=35)
settings.load_profile("project")
settings.register_profile("random", deadline=None, derandomize=False, max_examples=100, print_blob=True)
# For tests marked `fuzz`, which say no number of examples themselves: `make fuzz` chooses this profile.
settings.register_profile(
    "fuzz",
    settings.get_profile("random"),
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "20000")),
    suppress_health_check=[HealthCheck.too_slow],
)


class Failures:
    """Prints a failure when it occurs: of a run that is ended before its summary, they are all that is known.

    A run of the failed tests alone (`--last-failed`) lists those that pass now as flaky, with their errors before.
    """

    _ERRORS = "failures/errors"  # of the run before, in pytest's cache

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cache: pytest.Cache | None = getattr(config, "cache", None)
        self._errors: dict[str, str] = {}
        self._is_rerun = self._cache is not None and config.getoption("lf")
        self._errors_before: dict[str, str] = self._cache.get(self._ERRORS, {}) if self._is_rerun else {}
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print which test failed, when, and the first lines of its error."""
        if report.passed and report.when == "call":
            self._passed.add(report.nodeid)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            lines = [line[:600] for line in report.longreprtext.splitlines() if line.startswith("E ")][:6]
            head = f"{report.nodeid}: {report.when} failed after {report.duration:.0f} s"
            self._errors[report.nodeid] = "\n".join([head, *lines])
            reporter.write_line(f"\n{self._errors[report.nodeid]}")

    def pytest_sessionfinish(self) -> None:
        """Keep the errors for a run of the failed tests alone."""
        if self._cache is not None and not self._is_rerun:
            self._cache.set(self._ERRORS, self._errors)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the flaky tests."""
        for nodeid in sorted(self._passed & self._errors_before.keys() - self._errors.keys()):
            terminalreporter.write_line(f"flaky: {self._errors_before[nodeid]}")


def pytest_configure(config: pytest.Config) -> None:
    """Print failures at once, in the process that collects the reports."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Failures(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Require a reason of each nightly test."""
    for item in items:
        for marker in item.iter_markers("nightly"):
            if not (marker.args and isinstance(marker.args[0], str) and marker.args[0]):
                raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.nightly("why it takes minutes")')


# Their files use the same servers, which one worker starts once: by folder, the name of these servers.
SERVERS_BY_FOLDER = {
    "tests/spark/": "spark",
    "tests/airflow/": "airflow",
    "tests/e2e/airflow/": "a whole airflow",
    **dict.fromkeys(
        ("tests/faults/servers/", *(f"tests/integration/{each}/" for each in ("backends", "services", "workflow"))),
        "hdfs and alluxio",
    ),
}


class ScopeScheduling(LoadFileScheduling):
    """The tests of a file run on one worker, and so do those of all folders with the same servers."""

    def _split_scope(self, nodeid: str) -> str:
        servers = next((servers for folder, servers in SERVERS_BY_FOLDER.items() if nodeid.startswith(folder)), None)
        return servers or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ScopeScheduling | None:
    """Schedule so with `--dist loadfile`."""
    return ScopeScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that are run with a home in a test's folder make their cache elsewhere."""
    yield
    remove_memory_below(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _log_levels_are_restored() -> Iterator[None]:
    """Commands that are called in the tests' own process choose the levels of a process that is theirs."""
    before = {logger: logger.level for logger in _platform_loggers()}
    yield
    for logger in _platform_loggers():
        if logger.level != (level := before.get(logger, logging.NOTSET)):
            logger.setLevel(level)


def _platform_loggers() -> list[logging.Logger]:
    loggers = list(logging.root.manager.loggerDict.items())
    return [logger for name, logger in loggers if name.startswith(LOGGER) and isinstance(logger, logging.Logger)]


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


@pytest.fixture(scope="session")
def empty_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file: opening a copy of it takes a fifth of the time that the migrations take."""
    file = tmp_path_factory.mktemp("catalog") / "catalog.db"
    open_database(f"sqlite:///{file}").dispose()
    return file


@pytest.fixture
def open_at(
    tmp_path: Path, runner: LinesRunner, catalog_url: str, empty_catalog: Path
) -> Iterator[Callable[..., Platform]]:
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
        platform_settings = Settings(**{**defaults, **settings})  # type: ignore[arg-type]
        if not platform_settings.catalog_url and not any(platform_settings.home.glob("catalog.db*")):
            platform_settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy(empty_catalog, platform_settings.home / "catalog.db")  # with its mode
        platform = open_platform(platform_settings, runner=runner, actor="test")
        opened.append(platform)
        return platform

    yield open_
    for platform in opened:
        platform.close()


@pytest.fixture
def platform(open_at: Callable[..., Platform]) -> Platform:
    """A platform of its own for each test."""
    return open_at()
