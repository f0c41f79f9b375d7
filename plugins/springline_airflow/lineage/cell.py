"""One generation of a template: its state, and the chain that would restore it if its bytes are or were lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from springline.airflow.lineage.live_index import LiveIndex
from springline.airflow.lineage.possible_actions import permitted_actions, possible_actions
from springline.persistence.decisions.recovery import RecoveryStep, plan_recovery
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.model.path_partition import PathPartition


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A dataset that is fetched or recomputed, in its place of the picture; `template` is empty if it is hidden."""

    path: str
    generation: int
    template: str
    partition: str
    action: str  # fetch or recompute
    seconds: float | None


@dataclass(frozen=True, slots=True)
class CellDetail:
    """A generation and what restores it: `chain` in executable order, empty if nothing would have to be done.

    `is_lost`: its bytes are gone now; otherwise the chain is what a loss of the cache would require.
    `irrecoverable_reasons`: why it cannot be restored. `unproven_reasons`: which operations of the chain are only
    declared idempotent. `actions`: those that are possible now and that you may perform; `refused`: those that you may
    not perform, and why.
    """

    template: str
    partition: str
    path: str
    generation: int
    status: str
    cache: str
    under_store: str
    bytes: int
    rows: int | None
    operation: str
    version: str
    dag_id: str
    run_id: str
    task_id: str
    created_at: float
    committed_at: float | None
    persisted_at: float | None
    pinned: bool
    checkpoint: bool
    is_lost: bool
    chain: Sequence[ChainStep]
    seconds: float
    irrecoverable_reasons: Sequence[str]
    unproven_reasons: Sequence[str]
    error: str
    actions: Sequence[str]
    refused: Mapping[str, str]


def describe_cell(
    ref: Ref,
    place: PathPartition,
    lineage: Lineage,
    costs: CostModel,
    index: LiveIndex,
    refused: Mapping[str, str],
) -> CellDetail:
    """Return the details of a generation; `lineage` has its unpersisted ancestors, and aliases for hidden ones."""
    dataset = lineage.datasets[ref]
    is_lost = not dataset.available and dataset.phase.value == "committed"
    if not dataset.persisted and not is_lost:
        ancestors = [lineage.datasets[each] for each in lineage.unpersisted_ancestors(ref)]
        lineage_after_loss = lineage.with_changes(*(replace(d, cache=CacheState.LOST) for d in (*ancestors, dataset)))
    else:
        lineage_after_loss = lineage
    needs_plan = is_lost or not dataset.persisted
    plan = plan_recovery(lineage_after_loss, [ref], costs) if needs_plan else None
    obstacles = list(plan.irrecoverable.get(ref, ())) if plan else []
    possible = possible_actions(dataset, lineage, costs, obstacles=lineage.recompute_obstacles(ref))
    permitted, not_permitted = permitted_actions(possible, refused)
    return CellDetail(
        template=place.template, partition=place.partition, path=ref.path, generation=ref.generation,
        status=dataset.status(recomputable=lineage.is_restorable(ref)).value, cache=dataset.cache.value,
        under_store=dataset.under.value, bytes=dataset.bytes, rows=dataset.rows,
        operation=dataset.call.name if dataset.call else "", version=dataset.call.version if dataset.call else "",
        dag_id=dataset.origin.dag_id, run_id=dataset.origin.run_id, task_id=dataset.origin.task_id,
        created_at=dataset.created_at, committed_at=dataset.committed_at, persisted_at=dataset.persisted_at,
        pinned=dataset.pinned, checkpoint=dataset.checkpoint, is_lost=is_lost,
        chain=_steps(plan.steps, index) if plan else [], seconds=plan.seconds if plan else 0.0,
        irrecoverable_reasons=obstacles, unproven_reasons=list(plan.unproven.get(ref, ())) if plan else [],
        error=dataset.error, actions=permitted,
        refused=not_permitted,
    )  # fmt: skip


def _steps(steps: Sequence[RecoveryStep], index: LiveIndex) -> list[ChainStep]:
    """Return the steps with their places in the picture."""
    chain = []
    with index.lock:
        for step in steps:
            place = index.place_of(step.ref.path, step.ref.generation)
            template, partition = place or ("", "")
            seconds = step.predicted.seconds if step.predicted else None
            chain.append(ChainStep(step.ref.path, step.ref.generation, template, partition, step.action, seconds))
    return chain
