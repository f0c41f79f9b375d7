"""kill -9 and SIGSTOP of a real persister process in the middle of a transfer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from springline.persistence.model.dataset import Strategy, TransferMethod, UnderStoreState
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner
from tests.support.datasets.states import copies_in, events_of, measured, wipe_cache
from tests.support.datasets.workflow import (
    digests_below,
    digests_now,
    digests_without_faults,
    land,
    only_whole_copies_are_left,
    run_workflow,
    workflow_runner,
)
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runner() -> LinesRunner:
    """The operations of the workflow."""
    return workflow_runner()


@pytest.fixture
def platform(tmp_path: Path, runner: LinesRunner) -> Iterator[Platform]:
    """What survives: it looks on, and its persister takes over."""
    quick = {"min_operation_bytes": 0, "retry_seconds": 0, "lease_seconds": 0.5}
    settings = Settings(home=tmp_path / "home", cache_uri=f"file://{tmp_path}/cache", **quick)  # type: ignore[arg-type]
    platform = open_platform(settings, runner=runner, actor="the survivor")
    yield platform
    platform.close()


@contextmanager
def worker_in_the_middle(platform: Platform, tmp_path: Path, method: str) -> Iterator[subprocess.Popen[str]]:
    """A persister process that has got half way through its first transfer."""
    signal_file = tmp_path / "in the middle"
    arguments = [str(platform.settings.home), str(tmp_path / "cache"), str(signal_file), method]
    command = [sys.executable, "-m", "tests.support.datasets.worker", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: signal_file.exists() or process.poll() is not None)
        assert process.poll() is None, "the worker ended before it got to the middle"
        yield process
    finally:
        process.kill()
        process.wait()


def run_until_transfer(platform: Platform, tmp_path: Path, method: str) -> None:
    """A workflow whose load is persisted and whose next output is about to be sent."""
    run_workflow(platform, land(tmp_path), strategy=Strategy.ASYNC_AND_SYNC)
    if method == "operation":
        for name in ("clean", "count", "join"):
            measured(platform, name, run=0.001, send=10.0)


def is_published(platform: Platform, location: str) -> bool:
    """Whether a copy in the under-store has its manifest."""
    try:
        return bool(platform.under.read_manifest(location))
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("method", ["data", "operation"])
def test_a_worker_killed_in_the_middle_of_a_transfer_is_taken_over(
    platform: Platform, tmp_path: Path, method: str
) -> None:
    """Its lease runs out, its half copy goes, and the other worker's outputs are those of a run without faults."""
    run_until_transfer(platform, tmp_path, method)
    with worker_in_the_middle(platform, tmp_path, method) as worker:
        (sending,) = [d for d in platform.catalog.find() if d.under is UnderStoreState.COPYING]
        assert sending.method is TransferMethod(method)
        half = [location for location in copies_in(platform.under) if not is_published(platform, location)]
        assert len(half) == (method == "data")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    until(lambda: platform.persister.drain().remaining == 0)
    assert "the lease of persister" in " ".join(m.reason for m in platform.catalog.history(sending.ref))
    assert platform.catalog.get(sending.ref).persisted and events_of(platform, sending.ref).count("copied") == 1
    assert only_whole_copies_are_left(platform, copies_in(platform.under))
    wipe_cache(platform)
    assert digests_below(platform) == digests_without_faults() == digests_now(platform)


def test_a_worker_that_is_only_slow_keeps_its_claim(platform: Platform, tmp_path: Path) -> None:
    """It renews its lease while it works, however long that takes, so no other worker sends the same."""
    run_until_transfer(platform, tmp_path, "data")
    with worker_in_the_middle(platform, tmp_path, "data") as worker:
        (sending,) = [d for d in platform.catalog.find() if d.under is UnderStoreState.COPYING]
        ends = platform.catalog.now() + 2 * platform.settings.lease_seconds
        until(lambda: platform.catalog.now() > ends)
        assert platform.claims.expire() == []
        (tmp_path / "in the middle.go").touch()
        output, _ = worker.communicate(timeout=60)
    assert output.strip() == "" and platform.catalog.get(sending.ref).persisted
    assert os.waitstatus_to_exitcode(0) == worker.returncode
