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


def carry_out(lineage: Lineage, steps: tuple[RecoveryStep, ...]) -> Lineage | None:
    """The lineage after those steps; None if one of them finds a source missing."""
    for step in steps:
        dataset = lineage.datasets[step.ref]
        if step.action == "recompute" and not all(lineage.datasets[s].available for s in dataset.sources):
            return None
        if step.action == "fetch" and not dataset.persisted:
            return None
        lineage = lineage.with_changes(replace(dataset, cache=CacheState.PRESENT))
    return lineage


def proven_by_definition(lineage: Lineage, ref: Ref) -> bool:
    """Whether it, and all that has to be made before it, is made by operations that were seen to repeat."""
    operation = lineage.operation_of(ref)
    return (
        lineage.is_recomputable(ref)
        and operation is not None
        and operation.idempotence is Idempotence.PROVEN
        and all(
            lineage.has_persisted_copy(source) or proven_by_definition(lineage, source)
            for source in lineage.datasets[ref].sources
        )
    )


@st.composite
def losses(draw: st.DrawFn) -> tuple[Lineage, list[Ref]]:
    """A lineage and what is wanted back of it."""
    lineage = draw(lineages(9))
    return lineage, draw(st.lists(st.sampled_from(list(lineage.datasets)), unique=True))


@given(losses())
def test_executing_the_steps_in_order_has_every_target_in_the_cache_and_no_step_is_superfluous(
    loss: tuple[Lineage, list[Ref]],
) -> None:
    """Except those that are named as irrecoverable; without any one step a later one, or a target, lacks something."""
    lineage, targets = loss
    plan = plan_recovery(lineage, targets, COSTS)

    def suffice(steps: tuple[RecoveryStep, ...]) -> bool:
        later = carry_out(lineage, steps)
        return later is not None and all(later.datasets[t].in_cache for t in targets if t not in plan.irrecoverable)

    assert suffice(plan.steps)
    assert not any(suffice(tuple(step for step in plan.steps if step is not left_out)) for left_out in plan.steps)


@given(losses())
def test_after_a_loss_of_the_whole_cache_exactly_what_is_not_recomputable_is_irrecoverable(
    loss: tuple[Lineage, list[Ref]],
) -> None:
    """Unless it is persisted; and every one comes with its reasons."""
    lineage, targets = loss
    empty = lineage.with_changes(*(replace(d, cache=CacheState.LOST) for d in lineage.datasets.values()))
    plan = plan_recovery(empty, targets, COSTS)
    assert plan.irrecoverable.keys() == {
        t for t in targets if not empty.datasets[t].available and not empty.is_recomputable(t)
    }
    assert all(plan.irrecoverable.values())


@given(lineages())
def test_at_risk_splits_what_only_the_cache_has_by_recomputable(lineage: Lineage) -> None:
    """Nothing is counted twice, nothing left out; what only declared operations bring back is counted apart."""
    risk = assess_risk(lineage, COSTS)
    exposed = {r for r, d in lineage.datasets.items() if d.phase is Phase.COMMITTED and d.in_cache and not d.persisted}
    assert len(risk.recomputable) + len(risk.unproven) + len(risk.irrecoverable) == len(exposed)
    assert set(risk.recomputable) | set(risk.unproven) == {r for r in exposed if lineage.is_recomputable(r)}
    assert set(risk.recomputable) == {r for r in exposed if proven_by_definition(lineage, r)}
    assert risk.bytes == risk.recomputable_bytes + risk.unproven_bytes + risk.irrecoverable_bytes
