"""Facts of the lineage graph that hold for any lineage."""

from hypothesis import given

from springline.persistence.model.dataset import Phase, Ref
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages


def recomputable_by_definition(lineage: Lineage, ref: Ref) -> bool:
    """The definition as it is written, by recursion."""
    operation = lineage.operation_of(ref)
    return (
        lineage.datasets[ref].phase is not Phase.RETIRED
        and operation is not None
        and operation.repeatable
        and all(
            (lineage.datasets[s].persisted and lineage.datasets[s].phase is not Phase.RETIRED)
            or recomputable_by_definition(lineage, s)
            for s in lineage.datasets[ref].sources
        )
    )


@given(lineages())
def test_recomputable_is_what_its_definition_says(lineage: Lineage) -> None:
    """Repeatable operation, and every source persisted or recomputable; and there is a reason exactly if not."""
    for ref in lineage.datasets:
        assert lineage.is_recomputable(ref) is recomputable_by_definition(lineage, ref)
        assert lineage.is_recomputable(ref) is not bool(lineage.recompute_obstacles(ref))


@given(lineages())
def test_the_answer_does_not_depend_on_what_was_asked_before(lineage: Lineage) -> None:
    """What is remembered is what a fresh lineage would find."""
    for ref in lineage.datasets:
        lineage.is_recomputable(ref)
    for ref in reversed(lineage.datasets):
        fresh = Lineage(lineage.datasets, lineage.operations)
        assert lineage.recompute_obstacles(ref) == fresh.recompute_obstacles(ref)


@given(lineages())
def test_what_is_not_persisted_around_a_dataset_is_listed_once_and_in_order(lineage: Lineage) -> None:
    """Sources always come first; nothing that is listed is persisted."""
    for ref in lineage.datasets:
        for listed in (lineage.unpersisted_ancestors(ref), lineage.unpersisted_descendants(ref)):
            place = {r: i for i, r in enumerate(listed)}
            assert len(place) == len(listed) and ref not in place
            assert not any(lineage.has_persisted_copy(r) for r in listed)
            assert all(place[s] < place[r] for r in listed for s in lineage.datasets[r].sources if s in place)


@given(lineages())
def test_running_a_chain_in_order_has_the_dataset_again(lineage: Lineage) -> None:
    """At every step all sources are at hand, with the whole cache taken as gone; nothing is run twice."""
    cache = frozenset(lineage.datasets)
    for ref, dataset in lineage.datasets.items():
        chain, blocked = lineage.recompute_order([ref], without=cache)
        if blocked:
            assert not lineage.is_recomputable(ref)
            continue
        at_hand = {r for r, d in lineage.datasets.items() if d.available and d.persisted}
        for step in chain:
            assert step not in at_hand
            assert set(lineage.datasets[step].sources) <= at_hand
            at_hand.add(step)
        assert ref in at_hand
        assert chain == () or lineage.is_recomputable(ref)
        assert chain == () or not dataset.persisted
