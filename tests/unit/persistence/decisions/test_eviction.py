"""What may leave the cache, on chains, diamonds and under every reason to stay."""

import pytest

from springline.persistence.decisions.eviction import EvictionPlan, plan_eviction
from springline.persistence.model.dataset import Operation, Strategy
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import cached, chain_of, evicted, lineage_of, persisted, ref


def plan(lineage: Lineage, needed: int, *, protected: tuple[str, ...] = (), replacement: str = "lru") -> EvictionPlan:
    """A plan at time 100."""
    protected_refs = frozenset(ref(name) for name in protected)
    return plan_eviction(lineage, needed, protected=protected_refs, replacement=replacement, now=100.0)


def victims(eviction_plan: EvictionPlan) -> list[str]:
    """The paths of the victims, in order."""
    return [victim.ref.path for victim in eviction_plan.victims]


def test_persisted_and_unwanted_ones_go_first_the_least_recently_used_before_others() -> None:
    """A wanted unpersisted one stays as long as these suffice."""
    lineage = lineage_of(
        cached("wanted", "old", created_at=1.0),
        persisted("new", created_at=9.0, last_read_at=50.0),
        persisted("old", created_at=2.0),
        cached("temporary", "new", created_at=5.0, persist_requested=False),
    )
    eviction_plan = plan(lineage, 3000)
    assert victims(eviction_plan) == ["old", "temporary", "new"]
    assert [victim.rule for victim in eviction_plan.victims] == ["persisted", "not_requested", "persisted"]
    assert eviction_plan.missing_bytes == 0


def test_lrfu_keeps_what_is_read_often_though_not_lately() -> None:
    """Least recently used would let it go first; another order is refused."""
    lineage = lineage_of(persisted("often", created_at=1.0, reads=9), persisted("once", created_at=50.0))
    assert victims(plan(lineage, 1)) == ["often"]
    assert victims(plan(lineage, 1, replacement="lrfu")) == ["once"]
    with pytest.raises(ValueError, match="use lru or lrfu"):
        plan(lineage, 1, replacement="mru")


def test_alternate_members_of_a_chain_go() -> None:
    """d0 is persisted; of d1 to d6 every other one stays, so that each evicted one is one step away."""
    eviction_plan = plan(chain_of(6), 10**6)
    assert victims(eviction_plan) == ["d0", "d1", "d3", "d5"]
    assert eviction_plan.retention_reasons == {
        ref(f"d{i}"): f"it is not persisted, and its recomputation would need d{i - 1}@1, which is not available"
        for i in (2, 4, 6)
    }


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        (None, "no operation is recorded"),
        ("dice", "is not idempotent"),
        ("liar", "another digest"),
        ("fresh", "is not proven idempotent yet"),
    ],
)
def test_what_could_not_surely_be_recomputed_is_never_evicted(by: str | None, reason: str) -> None:
    """Wanted or not; bytes stay missing and the plan says why."""
    operations = {
        "liar": Operation("liar", "v1", idempotent=True, nondeterministic=True, repeats=1),
        "fresh": Operation("fresh", "v1", idempotent=True),
    }
    for persist_requested in (True, False):
        lineage = lineage_of(
            persisted("a", bytes=10), cached("b", "a", by=by, persist_requested=persist_requested), **operations
        )
        eviction_plan = plan(lineage, 500)
        assert victims(eviction_plan) == ["a"]
        assert (eviction_plan.freed_bytes, eviction_plan.missing_bytes) == (10, 490)
        assert reason in eviction_plan.retention_reasons[ref("b")]


def test_pinned_and_protected_ones_stay_though_persisted() -> None:
    """A person's pin, and a reader's or writer's hold."""
    lineage = lineage_of(persisted("a", pinned=True), persisted("b"), persisted("c"))
    eviction_plan = plan(lineage, 10**6, protected=("b",))
    assert victims(eviction_plan) == ["c"]
    assert eviction_plan.retention_reasons == {ref("a"): "it is pinned", ref("b"): "it is being read or written"}


def test_cache_only_datasets_go_last_and_for_good_as_their_strategy_says() -> None:
    """They were promised nothing; the words say that they may be lost."""
    lineage = lineage_of(
        cached("loose", by="dice", strategy=Strategy.CACHE_ONLY, persist_requested=False),
        persisted("a", created_at=50.0),
    )
    assert victims(plan(lineage, 1000)) == ["a"]
    eviction_plan = plan(lineage, 2000)
    assert victims(eviction_plan) == ["a", "loose"]
    assert eviction_plan.victims[-1].rule == "not_requested"
    assert "may be lost permanently" in eviction_plan.victims[-1].reason
    assert eviction_plan.retention_reasons == {}


def test_a_whole_cache_only_chain_can_go() -> None:
    """Alternate members first, while they can be recomputed; then the others."""
    unwanted = {"strategy": Strategy.CACHE_ONLY, "persist_requested": False}
    lineage = lineage_of(cached("d0", **unwanted), *(cached(f"d{i}", f"d{i - 1}", **unwanted) for i in range(1, 5)))
    assert plan(lineage, 5000).missing_bytes == 0


def test_a_cache_only_source_stays_while_an_evicted_dataset_leans_on_it() -> None:
    """Its own strategy promises nothing, but that of the dependent does."""
    lineage = lineage_of(
        persisted("a", by=None),
        cached("loose", "a", strategy=Strategy.CACHE_ONLY, persist_requested=False),
        evicted("b", "loose", strategy=Strategy.ASYNC_STORE),
    )
    eviction_plan = plan(lineage, 10**6)
    assert victims(eviction_plan) == ["a"]
    assert "b@1 left the cache unpersisted" in eviction_plan.retention_reasons[ref("loose")]


def test_every_victim_says_why_it_may_go() -> None:
    """Its size, how long it has been idle, and what brings it back."""
    eviction_plan = plan(chain_of(1), 10**6)
    assert [victim.reason for victim in eviction_plan.victims] == [
        "1 kB, last used 1 min 40 s ago; a verified copy is in the under-store",
        "1 kB, last used 99 s ago; op recomputes it in one step from d0@1",
    ]
