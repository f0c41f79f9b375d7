"""The lineage graph: what is recomputable, why not, and what has to be run."""

from dataclasses import replace

import pytest

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Call, Dataset, Operation, Phase
from springline.persistence.model.lineage import Lineage, check_acyclic
from tests.support.datasets.lineages import cached, chain_of, lineage_of, persisted, ref

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


LIAR = "liar (version v1), which made b@1, was declared idempotent"
OLD = "old (version v1), which made b@1, cannot be run:"


@pytest.mark.parametrize(
    ("source", "dataset", "reason"),
    [
        (cached("a", by=None), cached("b", "a"), "no operation is recorded for a@1"),
        (persisted("a"), cached("b", "a", call=Call("op", "v0")), "op (version v0), which made b@1, is not registered"),
        (persisted("a", by=None, phase=Phase.RETIRED), cached("b", "a"), "a@1 is retired"),
        (persisted("a"), cached("b", "x"), "x@1 is not in the catalog"),
        (persisted("a"), cached("b", "a", by="dice"), "dice (version v1), which made b@1, is not idempotent"),
        (persisted("a"), cached("b", "a", by="liar"), f"{LIAR} but a second run returned another digest"),
        (persisted("a"), cached("b", "a", by="old"), f"{OLD} its code no longer exists"),
    ],
)
def test_what_ends_recomputability_is_named(source: Dataset, dataset: Dataset, reason: str) -> None:
    """The first cause upstream, not the dataset asked about, with the operation's name and version."""
    liar = Operation("liar", "v1", idempotent=True, nondeterministic=True)
    old = Operation("old", "v1", idempotent=True, runnable=False)
    lineage = lineage_of(source, dataset, cached("c", "b"), liar=liar, old=old)
    assert lineage.recompute_obstacles(ref("c")) == (reason,)


def test_every_cause_is_named_once() -> None:
    """Two sides of a diamond that end at the same landing file give one reason, another file a second."""
    lineage = lineage_of(
        cached("l1", by=None), cached("l2", by=None), cached("a", "l1"), cached("b", "l1", "l2"), cached("c", "a", "b")
    )
    assert [reason.split()[-1] for reason in lineage.recompute_obstacles(ref("c"))] == ["l1@1", "l2@1"]


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


def test_a_cycle_among_declared_operations_is_named() -> None:
    """The error shows the way round, from and to the same name."""
    with pytest.raises(CyclicLineageError, match="clean -> parse -> clean"):
        check_acyclic({"load": [], "clean": ["load", "parse"], "parse": ["clean"]})
    with pytest.raises(CyclicLineageError, match="a -> a"):
        check_acyclic({"a": ["a"]})


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
