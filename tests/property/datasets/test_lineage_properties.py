"""Facts of the lineage graph that hold for any lineage."""

from hypothesis import given

from springline.persistence.model.dataset import Phase, Ref
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages


def recomputable_by_definition(known: Lineage, ref: Ref) -> bool:
    """The definition as it is written, by recursion."""
    operation = known.operation_of(ref)
    return (
        known.datasets[ref].phase is not Phase.RETIRED
        and operation is not None
        and operation.repeatable
        and all(
            (known.datasets[s].persisted and known.datasets[s].phase is not Phase.RETIRED)
            or recomputable_by_definition(known, s)
            for s in known.datasets[ref].sources
        )
    )


@given(lineages())
def test_recomputable_is_what_its_definition_says(known: Lineage) -> None:
    """Repeatable operation, and every source persisted or recomputable; and there is a reason exactly if not."""
    for ref in known.datasets:
        assert known.is_recomputable(ref) is recomputable_by_definition(known, ref)
        assert known.is_recomputable(ref) is not bool(known.recompute_obstacles(ref))


@given(lineages())
def test_the_answer_does_not_depend_on_what_was_asked_before(known: Lineage) -> None:
    """What is remembered is what a fresh lineage would find."""
    for ref in known.datasets:
        known.is_recomputable(ref)
    for ref in reversed(known.datasets):
        fresh = Lineage(known.datasets, known.operations)
        assert known.recompute_obstacles(ref) == fresh.recompute_obstacles(ref)


@given(lineages())
def test_what_is_not_persisted_around_a_dataset_is_listed_once_and_in_order(known: Lineage) -> None:
    """Sources always come first; nothing that is listed is persisted."""
    for ref in known.datasets:
        for listed in (known.unpersisted_ancestors(ref), known.unpersisted_descendants(ref)):
            place = {r: i for i, r in enumerate(listed)}
            assert len(place) == len(listed) and ref not in place
            assert not any(known.has_persisted_copy(r) for r in listed)
            assert all(place[s] < place[r] for r in listed for s in known.datasets[r].sources if s in place)


@given(lineages())
def test_running_a_chain_in_order_has_the_dataset_again(known: Lineage) -> None:
    """At every step all sources are at hand, with the whole cache taken as gone; nothing is run twice."""
    cache = frozenset(known.datasets)
    for ref, dataset in known.datasets.items():
        chain, blocked = known.recompute_order([ref], without=cache)
        if blocked:
            assert not known.is_recomputable(ref)
            continue
        at_hand = {r for r, d in known.datasets.items() if d.available and d.persisted}
        for step in chain:
            assert step not in at_hand
            assert set(known.datasets[step].sources) <= at_hand
            at_hand.add(step)
        assert ref in at_hand
        assert chain == () or known.is_recomputable(ref)
        assert chain == () or not dataset.persisted
