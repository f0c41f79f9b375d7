"""The lineage graph: what is recomputable, why not, and what has to be run."""

import re
from dataclasses import replace

import pytest

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Call, Operation, Phase, UnderStoreState
from springline.persistence.model.lineage import Lineage, check_acyclic
from tests.support.datasets.lineages import cached, chain_of, evicted, lineage_of, persisted, ref

DIAMOND = lineage_of(persisted("a", by=None), cached("b", "a"), cached("c", "a"), cached("d", "b", "c"))


def test_what_is_not_persisted_around_a_dataset_comes_sources_first_and_each_once() -> None:
    """A diamond's sides stand between its ends, whichever end is asked; what is persisted is not gone back to."""
    assert DIAMOND.unpersisted_ancestors(ref("d")) == (ref("b"), ref("c"))
    below = DIAMOND.unpersisted_descendants(ref("a"))
    assert (set(below[:2]), below[2:]) == ({ref("b"), ref("c")}, (ref("d"),))


def test_dependents_are_direct_and_sorted() -> None:
    """Grandchildren are not dependents, and the order does not depend on how the catalog was read."""
    turned = Lineage(dict(reversed(list(DIAMOND.datasets.items()))), DIAMOND.operations)
    assert DIAMOND.dependents(ref("a")) == turned.dependents(ref("a")) == (ref("b"), ref("c"))


def test_a_persisted_source_makes_the_chain_below_it_recomputable() -> None:
    """Every repeatable step down from a persisted dataset can be made again."""
    assert all(chain_of(5).is_recomputable(ref(f"d{i}")) for i in range(1, 6))


def test_a_dataset_without_operation_is_not_recomputable() -> None:
    """A landing file that was only loaded has nothing to be made from."""
    lineage = lineage_of(cached("landing", by=None))
    assert lineage.recompute_obstacles(ref("landing")) == ("no operation is recorded for landing@1",)


def test_an_unpersisted_source_that_nothing_can_make_ends_it_and_is_named() -> None:
    """The reason names the first cause upstream, not the dataset asked about."""
    lineage = lineage_of(cached("landing", by=None), cached("a", "landing"), cached("b", "a"))
    assert lineage.recompute_obstacles(ref("b")) == ("no operation is recorded for landing@1",)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation("x", "v1", idempotent=False), "is not idempotent"),
        (Operation("x", "v1", idempotent=True, nondeterministic=True), "a second run returned another digest"),
        (Operation("x", "v1", idempotent=True, runnable=False), "its code no longer exists"),
    ],
)
def test_recomputable_ends_when_the_operation_may_not_be_relied_on(operation: Operation, reason: str) -> None:
    """Not idempotent, nondeterministic, or its code gone: each is said with the operation's name and version."""
    lineage = lineage_of(persisted("a", by=None), cached("b", "a", by="x"), cached("c", "b"), x=operation)
    (obstacle,) = lineage.recompute_obstacles(ref("c"))
    assert obstacle.startswith("x (version v1), which made b@1,")
    assert reason in obstacle


def test_recomputable_ends_when_the_recorded_version_is_not_registered() -> None:
    """The code that made it counts, not newer code of the same name."""
    lineage = lineage_of(persisted("a", by=None), cached("b", "a", call=Call("op", "v0")))
    assert lineage.recompute_obstacles(ref("b")) == ("op (version v0), which made b@1, is not registered",)


def test_recomputable_ends_when_a_source_retires() -> None:
    """A retired generation's bytes are gone, though its record still says that it was persisted."""
    lineage = lineage_of(persisted("a", by=None, phase=Phase.RETIRED), cached("b", "a"))
    assert lineage.recompute_obstacles(ref("b")) == ("a@1 is retired",)


def test_recomputable_ends_when_a_source_is_not_known() -> None:
    """A source outside the catalog cannot be relied on."""
    assert lineage_of(cached("b", "a")).recompute_obstacles(ref("b")) == ("a@1 is not in the catalog",)


def test_a_copy_under_way_does_not_count_as_persisted() -> None:
    """Only a verified copy makes what comes from it recomputable."""
    lineage = lineage_of(cached("a", by="dice", under=UnderStoreState.COPYING), cached("b", "a"))
    assert not lineage.is_recomputable(ref("b"))
    assert lineage.with_changes(persisted("a", by="dice")).is_recomputable(ref("b"))


def test_every_cause_is_named_once() -> None:
    """Two sides of a diamond that end at the same landing file give one reason, another file a second."""
    lineage = lineage_of(
        cached("l1", by=None), cached("l2", by=None), cached("a", "l1"), cached("b", "l1", "l2"), cached("c", "a", "b")
    )
    assert [reason.split()[-1] for reason in lineage.recompute_obstacles(ref("c"))] == ["l1@1", "l2@1"]


def test_a_chain_is_empty_for_what_is_at_hand() -> None:
    """In the cache or in the under-store: nothing has to be run."""
    assert DIAMOND.recompute_order([ref("a"), ref("d")]) == ((), {})


def test_a_chain_goes_back_to_what_is_at_hand_and_no_further() -> None:
    """A cached source is read, not made again."""
    lineage = lineage_of(persisted("a", by=None), cached("b", "a"), evicted("c", "b"), evicted("d", "c"))
    assert lineage.recompute_order([ref("d")]) == ((ref("c"), ref("d")), {})


def test_a_chain_without_cached_bytes_goes_back_to_the_under_store() -> None:
    """`without` asks what would be run if those cached bytes were lost; persisted copies remain."""
    evicted_refs = frozenset(DIAMOND.datasets)
    assert DIAMOND.recompute_order([ref("d")], without=evicted_refs) == ((ref("b"), ref("c"), ref("d")), {})
    assert DIAMOND.recompute_order([ref("a")], without=evicted_refs) == ((), {})


def test_a_cached_source_serves_a_chain_though_it_could_not_be_made_again() -> None:
    """What is recomputable only as long as the cache stands can still be brought back today."""
    lineage = lineage_of(cached("landing", by=None), evicted("a", "landing"))
    assert not lineage.is_recomputable(ref("a"))
    assert lineage.recompute_order([ref("a")]) == ((ref("a"),), {})


def test_a_chain_that_nothing_can_begin_names_what_is_missing() -> None:
    """Each dataset that cannot come back is told with every cause."""
    lineage = lineage_of(evicted("landing", by=None), evicted("noise", by="dice"), evicted("a", "landing", "noise"))
    order, blocked = lineage.recompute_order([ref("a")])
    assert (order, set(blocked)) == ((), {ref("a")})
    first, second = blocked[ref("a")]
    assert first.endswith("landing@1") and re.fullmatch(r"dice .*noise@1, is not idempotent", second)


def test_operations_that_have_not_read_a_dataset_yet_are_still_to_run() -> None:
    """Declared readers count until they have committed; open dependents count; others do not."""
    lineage = lineage_of(
        cached("a", by="parse"),
        cached("b", "a", by="clean"),
        cached("c", "a", by="count", phase=Phase.OPEN),
        readers={"parse": ("clean", "count", "rank")},
    )
    assert lineage.expected_readers(ref("a")) == ("count", "rank")


def test_nothing_is_still_to_run_on_a_superseded_generation() -> None:
    """New runs read the newer generation."""
    lineage = lineage_of(cached("a", by="parse", superseded=True), readers={"parse": ("clean",)})
    assert lineage.expected_readers(ref("a")) == ()


def test_a_cycle_among_declared_operations_is_named() -> None:
    """The error shows the way round, from and to the same name."""
    with pytest.raises(CyclicLineageError, match="clean -> parse -> clean"):
        check_acyclic({"load": [], "clean": ["load", "parse"], "parse": ["clean"]})


def test_an_operation_that_reads_its_own_output_is_a_cycle() -> None:
    """The shortest cycle has one member."""
    with pytest.raises(CyclicLineageError, match="a -> a"):
        check_acyclic({"a": ["a"]})


def test_declared_lineage_without_a_cycle_passes() -> None:
    """A diamond, and a source that nobody declares, are fine."""
    check_acyclic({"d": ["b", "c"], "b": ["a"], "c": ["a"]})


def test_a_chain_of_twenty_thousand_needs_no_recursion() -> None:
    """Depth costs memory, not stack frames."""
    length = 20_000
    lineage = chain_of(length)
    last = ref(f"d{length}")
    assert lineage.is_recomputable(last)
    assert len(lineage.recompute_order([last], without=frozenset(lineage.datasets))[0]) == length


def test_a_what_if_leaves_the_lineage_as_it_was() -> None:
    """`changed` answers for a copy; what was remembered for the first one stays true there."""
    lineage = lineage_of(persisted("a", by=None), cached("b", "a"))
    assert lineage.is_recomputable(ref("b"))
    assert not lineage.with_changes(replace(lineage.datasets[ref("a")], phase=Phase.RETIRED)).is_recomputable(ref("b"))
    assert lineage.is_recomputable(ref("b"))
