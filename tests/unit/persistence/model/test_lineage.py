"""The lineage graph: what is recomputable, why not, and what has to be run."""

import re
from dataclasses import replace

import pytest

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Call, Dataset, Operation, Phase, UnderStoreState
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


@pytest.mark.parametrize(
    ("source", "dataset", "reason"),
    [
        (cached("a", by=None), cached("b", "a"), "no operation is recorded for a@1"),
        (persisted("a"), cached("b", "a", call=Call("op", "v0")), "op (version v0), which made b@1, is not registered"),
        (persisted("a", by=None, phase=Phase.RETIRED), cached("b", "a"), "a@1 is retired"),
        (persisted("a"), cached("b", "x"), "x@1 is not in the catalog"),
    ],
)
def test_what_ends_recomputability_is_named(source: Dataset, dataset: Dataset, reason: str) -> None:
    """The first cause upstream, not the dataset asked about."""
    assert lineage_of(source, dataset, cached("c", "b")).recompute_obstacles(ref("c")) == (reason,)


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


def test_a_chain_goes_back_to_what_is_at_hand_and_no_further() -> None:
    """A cached source is read, not recomputed, even though it could not be; what is at hand itself needs no run."""
    lineage = lineage_of(cached("landing", by=None), evicted("a", "landing"), evicted("b", "a"))
    assert lineage.recompute_order([ref("b"), ref("landing")]) == ((ref("a"), ref("b")), {})


def test_a_chain_that_nothing_can_begin_names_what_is_missing() -> None:
    """Each dataset that cannot come back is listed with every cause."""
    lineage = lineage_of(evicted("landing", by=None), evicted("noise", by="dice"), evicted("a", "landing", "noise"))
    order, blocked = lineage.recompute_order([ref("a")])
    assert (order, set(blocked)) == ((), {ref("a")})
    first, second = blocked[ref("a")]
    assert first.endswith("landing@1") and re.fullmatch(r"dice .*noise@1, is not idempotent", second)


def test_operations_that_have_not_read_a_dataset_yet_are_still_to_run() -> None:
    """Declared readers count until they have committed, and none after a newer generation; open dependents count."""
    lineage = lineage_of(
        cached("a", by="parse"),
        cached("b", "a", by="clean"),
        cached("c", "a", by="count", phase=Phase.OPEN),
        readers={"parse": ("clean", "count", "rank")},
    )
    assert lineage.expected_readers(ref("a")) == ("count", "rank")
    assert lineage.with_changes(cached("a", by="parse", superseded=True)).expected_readers(ref("a")) == ("count",)


@pytest.mark.parametrize(
    ("operations", "cycle"),
    [
        ({"load": [], "clean": ["load", "parse"], "parse": ["clean"]}, "clean -> parse -> clean"),
        ({"a": ["a"]}, "a -> a"),
    ],
)
def test_a_cycle_among_declared_operations_is_named(operations: dict[str, list[str]], cycle: str) -> None:
    """The error shows the way round, from and to the same name."""
    with pytest.raises(CyclicLineageError, match=cycle):
        check_acyclic(operations)


def test_declared_lineage_without_a_cycle_passes() -> None:
    """A diamond, and an undeclared source, are fine."""
    check_acyclic({"d": ["b", "c"], "b": ["a"], "c": ["a"]})


def test_a_chain_of_five_thousand_needs_no_recursion() -> None:
    """Depth costs memory, not stack frames."""
    length = 5_000
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
