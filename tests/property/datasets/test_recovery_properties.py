"""What every recovery plan keeps, whatever the lineage."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.decisions.recovery import RecoveryStep, assess_risk, plan_recovery
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Idempotence, Phase, Ref
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages

COSTS = CostModel()


def carry_out(known: Lineage, steps: tuple[RecoveryStep, ...]) -> Lineage | None:
    """The lineage after those steps; None if one of them finds a source missing."""
    for step in steps:
        dataset = known.datasets[step.ref]
        if step.action == "recompute" and not all(known.datasets[s].available for s in dataset.sources):
            return None
        if step.action == "fetch" and not dataset.persisted:
            return None
        known = known.with_changes(replace(dataset, cache=CacheState.PRESENT))
    return known


def proven_by_definition(known: Lineage, ref: Ref) -> bool:
    """Whether it, and all that has to be made before it, is made by operations that were seen to repeat."""
    operation = known.operation_of(ref)
    return (
        known.is_recomputable(ref)
        and operation is not None
        and operation.idempotence is Idempotence.PROVEN
        and all(
            known.has_persisted_copy(source) or proven_by_definition(known, source)
            for source in known.datasets[ref].sources
        )
    )


@st.composite
def losses(draw: st.DrawFn) -> tuple[Lineage, list[Ref]]:
    """A lineage and what is wanted back of it."""
    known = draw(lineages(9))
    return known, draw(st.lists(st.sampled_from(list(known.datasets)), unique=True))


@given(losses())
def test_executing_the_steps_in_order_has_every_target_in_the_cache(loss: tuple[Lineage, list[Ref]]) -> None:
    """Except those that are named as irrecoverable."""
    known, targets = loss
    found = plan_recovery(known, targets, COSTS)
    later = carry_out(known, found.steps)
    assert later is not None
    assert all(later.datasets[t].in_cache for t in targets if t not in found.irrecoverable)


@given(losses())
def test_no_step_is_superfluous(loss: tuple[Lineage, list[Ref]]) -> None:
    """Without any one of them a later step, or a target, lacks something."""
    known, targets = loss
    found = plan_recovery(known, targets, COSTS)
    for left_out in found.steps:
        later = carry_out(known, tuple(step for step in found.steps if step is not left_out))
        assert later is None or not all(later.datasets[t].in_cache for t in targets if t not in found.irrecoverable)


@given(losses())
def test_after_a_loss_of_the_whole_cache_exactly_what_is_not_recomputable_is_irrecoverable(
    loss: tuple[Lineage, list[Ref]],
) -> None:
    """Unless it is persisted; and every one comes with its reasons."""
    known, targets = loss
    empty = known.with_changes(*(replace(d, cache=CacheState.LOST) for d in known.datasets.values()))
    found = plan_recovery(empty, targets, COSTS)
    assert found.irrecoverable.keys() == {
        t for t in targets if not empty.datasets[t].available and not empty.is_recomputable(t)
    }
    assert all(found.irrecoverable.values())


@given(lineages())
def test_at_risk_splits_what_only_the_cache_has_by_recomputable(known: Lineage) -> None:
    """Nothing is counted twice, nothing left out; what only declared operations bring back is counted apart."""
    risk = assess_risk(known, COSTS)
    exposed = {r for r, d in known.datasets.items() if d.phase is Phase.COMMITTED and d.in_cache and not d.persisted}
    assert len(risk.recomputable) + len(risk.unproven) + len(risk.irrecoverable) == len(exposed)
    assert set(risk.recomputable) | set(risk.unproven) == {r for r in exposed if known.is_recomputable(r)}
    assert set(risk.recomputable) == {r for r in exposed if proven_by_definition(known, r)}
    assert risk.bytes == risk.recomputable_bytes + risk.unproven_bytes + risk.irrecoverable_bytes
