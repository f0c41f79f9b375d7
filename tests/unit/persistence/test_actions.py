"""What a person may ask for by hand, what it changes, and that it is noted who it was."""

from __future__ import annotations

import pytest

from springline.persistence.actions import Wish, carry_out, decide, decide_return
from springline.persistence.errors import TransitionError
from springline.persistence.model.cost_model import Costs, Measurement
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref, Strategy, Under
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.lineages import evicted, lineage, made, persisted, ref


@pytest.mark.parametrize(
    ("wish", "dataset", "why"),
    [
        (Wish.PERSIST, persisted("a"), "is persisted already"),
        (Wish.PERSIST, made("a", under=Under.COPYING), "is being sent already"),
        (Wish.PERSIST, made("a", phase=Phase.OPEN), "is open, not committed"),
        (Wish.PERSIST, made("a", cache=Cache.LOST), "cannot be brought back: no code"),
        (Wish.PIN, made("a", pinned=True), "is pinned already"),
        (Wish.UNPIN, made("a"), "is not pinned"),
        (Wish.EVICT, evicted("a"), "is not in the cache"),
        (Wish.EVICT, made("a"), "is not persisted; only persisted ones go by hand"),
        (Wish.EVICT, persisted("a", pinned=True), "is pinned"),
        (Wish.EVICT, persisted("a"), "is being read"),
        (Wish.MARK, made("a", checkpoint=True), "is a checkpoint already"),
        (Wish.UNMARK, made("a"), "is no checkpoint"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(wish: Wish, dataset: Dataset, why: str) -> None:
    """Nothing would change."""
    decision = decide(dataset, wish, held=True, why_gone=("no code",))
    assert (decision.allowed, decision.words, dict(decision.columns)) == (False, f"a@1 {why}", {})


@pytest.mark.parametrize(
    ("wish", "dataset", "columns"),
    [
        (Wish.PERSIST, made("a", wanted=False), {"head": True, "wanted": True, "not_before": 0.0}),
        (Wish.PERSIST, evicted("a"), {"head": True, "wanted": True, "not_before": 0.0}),
        (Wish.PIN, made("a"), {"pinned": True}),
        (Wish.UNPIN, made("a", pinned=True), {"pinned": False}),
        (Wish.EVICT, persisted("a"), {}),
        (Wish.MARK, made("a"), {"checkpoint": True}),
        (Wish.UNMARK, made("a", checkpoint=True), {"checkpoint": False}),
    ],
)
def test_what_can_be_says_what_it_changes(wish: Wish, dataset: Dataset, columns: dict[str, object]) -> None:
    """In words and in columns."""
    decision = decide(dataset, wish)
    assert decision.allowed and decision.words.startswith("a@1 ") and dict(decision.columns) == columns


COSTS = Costs([Measurement(1000, 0.5)])
AGAIN = "run op on a@1 to have b@1 again (1 s: as when it was made)"


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (made("b", "a", cache=Cache.LOST), f"b@1 comes back in about 1 s: {AGAIN}"),
        (
            persisted("b", "a", cache=Cache.EVICTED),
            "b@1 comes back in about 500 ms: fetch b@1 from the under-store (500 ms: median rate of one "
            "measurement, 8 min 20 s/MB)",
        ),
        (
            made("b", "a"),
            "b@1 is in the cache; its bytes are looked at there, and if they are not whole, it comes back in about "
            f"1 s: {AGAIN}",
        ),
        (
            made("b", "a", cache=Cache.LOST, made_seconds=None),
            "b@1 comes back: run op on a@1 to have b@1 again (never measured)",
        ),
    ],
)
def test_what_comes_back_says_how_and_how_long_it_takes(dataset: Dataset, words: str) -> None:
    """From the under-store if it is there, else by running its operation; also while nobody has missed it yet."""
    decision = decide_return(ref("b"), lineage(persisted("a"), dataset), COSTS)
    assert (decision.words, decision.allowed) == (words, True)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (
            made("b", by="dice", cache=Cache.LOST),
            "b@1 cannot be brought back: dice (version v1), which made b@1, is not",
        ),
        (made("b", by="dice"), "b@1 is in the cache, and could not be brought back: dice (version v1)"),
        (made("b", phase=Phase.RETIRED), "b@1 is retired, not committed"),
    ],
)
def test_what_cannot_come_back_is_refused_with_the_reason(dataset: Dataset, words: str) -> None:
    """Before anything is started."""
    decision = decide_return(ref("b"), lineage(dataset), COSTS)
    assert decision.words.startswith(words) and not decision.allowed


def noted(platform: Platform, path: str) -> tuple[str, str]:
    """The last thing that happened to a dataset, and who did it."""
    last = platform.catalog.history(Ref(path, 1))[-1]
    return last.event, last.who


def grant(platform: Platform, path: str, wish: Wish) -> Dataset:
    """Carry a wish of Ulla's out."""
    carry_out(platform, decide(platform.catalog.resolve(path), wish), "ulla")
    return platform.catalog.resolve(path)


def test_what_is_to_be_persisted_now_is_the_next(platform: Platform) -> None:
    """Though others waited longer, and it was not wanted below."""
    make(platform, "a", "load")
    make(platform, "b", "shout", ["a"])
    make(platform, "c", "shout", ["a"], wanted=False)
    assert platform.claims.waiting(9)[0] != Ref("c", 1)
    grant(platform, "c", Wish.PERSIST)
    assert noted(platform, "c") == ("hurried", "ulla")
    assert next(platform.persister.choices()).ref == Ref("c", 1)


def test_a_pin_a_mark_and_their_ends_are_noted_by_name(platform: Platform) -> None:
    """Whoever changes the catalog otherwise is noted as before."""
    make(platform, "a", "load")
    for wish, event in (
        (Wish.PIN, "pinned"),
        (Wish.UNPIN, "unpinned"),
        (Wish.MARK, "marked"),
        (Wish.UNMARK, "unmarked"),
    ):
        grant(platform, "a", wish)
        assert noted(platform, "a") == (event, "ulla")
    platform.catalog.amend(Ref("a", 1), event="looked at")
    assert noted(platform, "a") == ("looked at", "test")


def test_a_checkpoint_has_another_turn_in_the_queue(open_at) -> None:  # type: ignore[no-untyped-def]
    """Under the paper's policy it comes before what is none; the stored score is the new one at once."""
    platform = open_at(policy="paper")
    for path in ("a", "b"):
        make(platform, path, "load")
    assert platform.claims.waiting(9) == [Ref("a", 1), Ref("b", 1)]
    assert grant(platform, "b", Wish.MARK).checkpoint
    assert platform.claims.waiting(9) == [Ref("b", 1), Ref("a", 1)]


def test_what_is_let_go_is_gone_from_the_cache_and_stays_below(platform: Platform) -> None:
    """It is noted who asked for it."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    after = grant(platform, "a", Wish.EVICT)
    assert (after.cache, after.persisted) == (Cache.EVICTED, True)
    assert noted(platform, "a") == ("evicted", "ulla")


def test_what_came_into_use_after_it_was_looked_at_stays(platform: Platform) -> None:
    """The decision is out of date, and that is told."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    decision = decide(platform.catalog.resolve("a"), Wish.EVICT)
    with platform.store.read("a"), pytest.raises(TransitionError, match="stays in the cache: it is being read"):
        carry_out(platform, decision, "ulla")
    assert platform.catalog.resolve("a").in_cache


def test_what_was_refused_is_not_carried_out(platform: Platform) -> None:
    """Whoever calls it all the same is told why."""
    make(platform, "a", "load")
    with pytest.raises(TransitionError, match="is not pinned"):
        grant(platform, "a", Wish.UNPIN)
