"""What the queue would do, in order, and what-if: another policy, another bandwidth, the cache lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from springline.persistence.decisions.priority import Policy, Score, in_turn
from springline.persistence.decisions.recovery import RecoveryPlan, exposed_in, plan_recovery
from springline.persistence.decisions.transfer import TransferPlan, decide
from springline.persistence.model.cost_model import Costs, Measurement
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True)
class Planned:
    """One transfer to come: its turn, its score, how it goes, and when it is predicted to be through (seconds)."""

    turn: int
    ref: Ref
    score: Score
    plan: TransferPlan
    through_in: float | None


def plan_queue(
    refs: Sequence[Ref], lineage: Lineage, costs: Costs, policy: Policy, *, small_bytes: int, now: float
) -> tuple[Planned, ...]:
    """The transfers of `refs` in the order of `policy`, one after another."""
    planned = []
    through: float | None = 0.0
    for turn, (ref, score) in enumerate(in_turn(refs, lineage, costs, policy, now), start=1):
        plan = decide(ref, lineage, costs, small_bytes=small_bytes)
        through = through + plan.predicted.seconds if through is not None and plan.predicted else None
        planned.append(Planned(turn, ref, score, plan, through))
    return tuple(planned)


def with_bandwidth(costs: Costs, bandwidth: float) -> Costs:
    """The same costs over a link of `bandwidth` bytes a second."""
    return replace(costs, link=(Measurement(int(bandwidth), 1.0),))


def if_the_cache_were_lost(lineage: Lineage, costs: Costs) -> RecoveryPlan:
    """What would have to be done to have again all that is committed and only in the cache."""
    exposed = exposed_in(lineage)
    return plan_recovery(lineage.without_cache(), [d.ref for d in exposed], costs)
