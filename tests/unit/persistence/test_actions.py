"""What a person may ask for by hand, what it changes, and that it is noted who it was."""

from __future__ import annotations

import pytest

from springline.persistence.actions import DatasetAction, apply_decision, decide_action, decide_recovery
from springline.persistence.errors import TransitionError
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref, Strategy, UnderStoreState
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref

TO_THE_HEAD = {"expedited": True, "persist_requested": True, "not_before": 0.0}


@pytest.mark.parametrize(
    ("wish", "dataset", "reason"),
    [
        (DatasetAction.PERSIST, persisted("a"), "is already persisted"),
        (DatasetAction.PERSIST, cached("a", under=UnderStoreState.COPYING), "is already being persisted"),
        (DatasetAction.PERSIST, cached("a", phase=Phase.OPEN), "is open, not committed"),
        (DatasetAction.PERSIST, cached("a", cache=CacheState.LOST), "cannot be restored: no code"),
        (DatasetAction.PIN, cached("a", pinned=True), "is already pinned"),
        (DatasetAction.UNPIN, cached("a"), "is not pinned"),
        (DatasetAction.EVICT, evicted("a"), "is not in the cache"),
        (DatasetAction.EVICT, cached("a"), "is not persisted; only persisted datasets can be evicted manually"),
        (DatasetAction.EVICT, persisted("a", pinned=True), "is pinned"),
        (DatasetAction.EVICT, persisted("a"), "is being read"),
        (DatasetAction.MARK, cached("a", checkpoint=True), "is already a checkpoint"),
        (DatasetAction.UNMARK, cached("a"), "is not a checkpoint"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(wish: DatasetAction, dataset: Dataset, reason: str) -> None:
    """Nothing would change."""
    decision = decide_action(dataset, wish, has_readers=True, recompute_obstacles=("no code",))
    assert (decision.allowed, decision.message, dict(decision.columns)) == (False, f"a@1 {reason}", {})


@pytest.mark.parametrize(
    ("wish", "dataset", "columns"),
    [
        (DatasetAction.PERSIST, cached("a", persist_requested=False), TO_THE_HEAD),
        (DatasetAction.PERSIST, evicted("a"), TO_THE_HEAD),
        (DatasetAction.PIN, cached("a"), {"pinned": True}),
        (DatasetAction.UNPIN, cached("a", pinned=True), {"pinned": False}),
        (DatasetAction.EVICT, persisted("a"), {}),
        (DatasetAction.MARK, cached("a"), {"checkpoint": True}),
        (DatasetAction.UNMARK, cached("a", checkpoint=True), {"checkpoint": False}),
    ],
)
def test_what_can_be_says_what_it_changes(wish: DatasetAction, dataset: Dataset, columns: dict[str, object]) -> None:
    """In words and in columns."""
    decision = decide_action(dataset, wish)
    assert decision.allowed and decision.message.startswith("a@1 ") and dict(decision.columns) == columns


COSTS = CostModel([Measurement(1000, 0.5)])
RECOMPUTE = "run op on a@1 to recompute b@1 (1 s: as in its first run)"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (cached("b", "a", cache=CacheState.LOST), f"b@1 will be restored in about 1 s: {RECOMPUTE}"),
        (
            persisted("b", "a", cache=CacheState.EVICTED),
            "b@1 will be restored in about 500 ms: fetch b@1 from the under-store (500 ms: median rate of one "
            "measurement, 8 min 20 s/MB)",
        ),
        (
            cached("b", "a"),
            "b@1 is in the cache; its files are checked, and if they are damaged, it will be restored in about 1 s: "
            f"{RECOMPUTE}",
        ),
        (
            cached("b", "a", cache=CacheState.LOST, compute_seconds=None),
            "b@1 will be restored: run op on a@1 to recompute b@1 (never measured)",
        ),
    ],
)
def test_what_comes_back_says_how_and_how_long_it_takes(dataset: Dataset, message: str) -> None:
    """From the under-store if it is there, else by running its operation; also while the loss is not noticed yet."""
    decision = decide_recovery(ref("b"), lineage_of(persisted("a"), dataset), COSTS)
    assert (decision.message, decision.allowed) == (message, True)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            cached("b", by="dice", cache=CacheState.LOST),
            "b@1 cannot be restored: dice (version v1), which made b@1, is not",
        ),
        (cached("b", by="dice"), "b@1 is in the cache, and cannot be restored if it is lost: dice (version v1)"),
        (cached("b", phase=Phase.RETIRED), "b@1 is retired, not committed"),
    ],
)
def test_what_cannot_come_back_is_refused_with_the_reason(dataset: Dataset, message: str) -> None:
    """Before anything is started."""
    decision = decide_recovery(ref("b"), lineage_of(dataset), COSTS)
    assert decision.message.startswith(message) and not decision.allowed


def last_entry(platform: Platform, path: str) -> tuple[str, str]:
    """The last thing that happened to a dataset, and who did it."""
    last = platform.catalog.history(Ref(path, 1))[-1]
    return last.event, last.actor


def grant(platform: Platform, path: str, wish: DatasetAction) -> Dataset:
    """Carry a wish of Ulla's out."""
    apply_decision(platform, decide_action(platform.catalog.resolve(path), wish), "ulla")
    return platform.catalog.resolve(path)


def test_what_is_to_be_persisted_now_is_the_next(platform: Platform) -> None:
    """Though others waited longer, and it was not wanted below."""
    make(platform, "a", "load")
    make(platform, "b", "shout", ["a"])
    make(platform, "c", "shout", ["a"], persist_requested=False)
    assert platform.claims.list_claimable(9)[0] != Ref("c", 1)
    grant(platform, "c", DatasetAction.PERSIST)
    assert last_entry(platform, "c") == ("expedited", "ulla")
    assert next(platform.persister.candidates()).ref == Ref("c", 1)


def test_what_is_done_by_hand_is_noted_by_name(platform: Platform) -> None:
    """Whoever changes the catalog otherwise is noted as before; what is evicted stays in the under-store."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    for wish, event in (
        (DatasetAction.PIN, "pinned"),
        (DatasetAction.UNPIN, "unpinned"),
        (DatasetAction.MARK, "marked"),
        (DatasetAction.UNMARK, "unmarked"),
        (DatasetAction.EVICT, "evicted"),
    ):
        after = grant(platform, "a", wish)
        assert last_entry(platform, "a") == (event, "ulla")
    assert (after.cache, after.persisted) == (CacheState.EVICTED, True)
    platform.catalog.amend(Ref("a", 1), event="looked at")
    assert last_entry(platform, "a") == ("looked at", "test")


def test_a_checkpoint_has_another_turn_in_the_queue(open_at) -> None:  # type: ignore[no-untyped-def]
    """Under the paper's policy it comes before what is none; the stored score is the new one at once."""
    platform = open_at(policy="paper")
    for path in ("a", "b"):
        make(platform, path, "load")
    assert platform.claims.list_claimable(9) == [Ref("a", 1), Ref("b", 1)]
    assert grant(platform, "b", DatasetAction.MARK).checkpoint
    assert platform.claims.list_claimable(9) == [Ref("b", 1), Ref("a", 1)]


def test_what_came_into_use_after_it_was_checked_stays(platform: Platform) -> None:
    """The decision is out of date, and that is reported; a call of what was refused all the same gets the reason."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    decision = decide_action(platform.catalog.resolve("a"), DatasetAction.EVICT)
    with platform.store.read("a"), pytest.raises(TransitionError, match="stays in the cache: it is being read"):
        apply_decision(platform, decision, "ulla")
    assert platform.catalog.resolve("a").in_cache
    with pytest.raises(TransitionError, match="is not pinned"):
        grant(platform, "a", DatasetAction.UNPIN)
