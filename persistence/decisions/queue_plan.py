"""The planned order of the queue, and what-if: another policy, another bandwidth, the cache lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from springline.persistence.decisions.priority import Policy, Score, order_by_priority
from springline.persistence.decisions.recovery import RecoveryPlan, exposed_datasets, plan_recovery
from springline.persistence.decisions.transfer import TransferPlan, plan_transfer
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True)
class PlannedTransfer:
    """One planned transfer: position, score, plan, and the predicted time until it is completed (seconds)."""

    position: int
    ref: Ref
    score: Score
    plan: TransferPlan
    completes_in: float | None


def plan_queue(
    refs: Sequence[Ref], lineage: Lineage, costs: CostModel, policy: Policy, *, small_bytes: int, now: float
) -> tuple[PlannedTransfer, ...]:
    """Plan the transfers of `refs` in the order of `policy`, one after another."""
    transfers = []
    elapsed: float | None = 0.0
    for position, (ref, score) in enumerate(order_by_priority(refs, lineage, costs, policy, now), start=1):
        plan = plan_transfer(ref, lineage, costs, small_bytes=small_bytes)
        elapsed = elapsed + plan.predicted.seconds if elapsed is not None and plan.predicted else None
        transfers.append(PlannedTransfer(position, ref, score, plan, elapsed))
    return tuple(transfers)


def with_bandwidth(costs: CostModel, bandwidth: float) -> CostModel:
    """Return the cost model with a link of `bandwidth` bytes per second."""
    return replace(costs, link=(Measurement(int(bandwidth), 1.0),))


def plan_cache_loss_recovery(lineage: Lineage, costs: CostModel) -> RecoveryPlan:
    """Plan the recovery of all committed generations that are only in the cache, after a loss of the cache."""
    exposed = exposed_datasets(lineage)
    return plan_recovery(lineage.without_cache(), [d.ref for d in exposed], costs)
