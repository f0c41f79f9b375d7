"""The cache, the under-store or a landing file fail while a workflow runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.model.dataset import Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import stage
from tests.support.datasets.states import wipe_cache
from tests.support.datasets.workflow import (
    digests_below,
    digests_now,
    digests_without_faults,
    land,
    run_workflow,
    workflow_runner,
)


class Fault:
    """Something that happens at the n-th point that a platform's stores and runner reach."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.happened = False
        self._act = act

    def __call__(self, point: str, location: str) -> None:
        self.left -= 1
        if self.left < 0 and not self.happened:
            self.happened = True
            self._act()


@pytest.fixture
def runner() -> LinesRunner:
    """The operations of the workflow."""
    return workflow_runner()


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """The landing file."""
    return land(tmp_path)


# ---- the cache


@pytest.mark.parametrize("moment", range(0, 60, 3))
def test_under_async_and_sync_the_cache_may_go_at_any_moment(
    open_at: Callable[..., Platform], landing: Path, moment: int
) -> None:
    """The run ends right, whatever the moment: each task that fails is tried once more, and nothing is lost."""
    platform = open_at()
    fault = Fault(moment, lambda: wipe_cache(platform))
    stage(platform, fault)
    datasets = run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    landing.unlink()
    assert {path: dataset.digest for path, dataset in datasets.items()} == digests_without_faults()
    assert digests_now(platform) == digests_without_faults()
    assert platform.persister.drain().remaining == 0
    wipe_cache(platform)
    assert digests_below(platform) == digests_without_faults() == digests_now(platform)
    assert fault.happened


# ---- the under-store


def test_a_process_that_starts_while_the_under_store_is_away_works_on(
    open_at: Callable[..., Platform], tmp_path: Path
) -> None:
    """It opens, makes no store in its place, writes to the cache, says what it waits for, and sends once it is back."""
    make(open_at(), "before", lines=["one"], strategy=Strategy.CACHE_THROUGH)
    root = tmp_path / "home" / "under"
    moved_root = root.rename(tmp_path / "away")
    platform = open_at()
    make(platform, "a", lines=["one"])
    (outcome,) = platform.persister.drain().outcomes[:1]
    assert f"{root} does not exist: is its disk mounted" in outcome.error and not root.exists()
    moved_root.rename(root)
    assert platform.persister.drain().remaining == 0
