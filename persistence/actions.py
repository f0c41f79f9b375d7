"""Manual actions on one generation: decided, applied, and logged with the person's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.errors import TransitionError
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref, UnderStoreState
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_bytes, format_seconds


class DatasetAction(StrEnum):
    """The actions that can be requested."""

    PERSIST = "persist"  # before all other generations
    PIN = "pin"
    UNPIN = "unpin"
    EVICT = "evict"
    MARK = "mark"  # as a checkpoint
    UNMARK = "unmark"


@dataclass(frozen=True)
class ActionDecision:
    """Decision on a requested action: the columns to change and the event to log, or the reason for refusal."""

    action: DatasetAction
    ref: Ref
    bytes: int
    message: str
    allowed: bool
    event: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)


def decide_action(
    dataset: Dataset,
    action: DatasetAction,
    *,
    has_readers: bool = False,
    recompute_obstacles: tuple[str, ...] = (),
    eviction_blocker: str = "",
) -> ActionDecision:
    """Decide whether `action` is allowed for a generation, and what it changes.

    `has_readers`: it is being read now. `recompute_obstacles`: why it cannot be recomputed, if it is
    lost. `eviction_blocker`: why its copy in the under-store is not reliable.
    """
    refusal = _refusal_reason(dataset, action, has_readers, recompute_obstacles, eviction_blocker)
    message, event, columns = _effect(dataset, action)
    if refusal:
        return ActionDecision(action, dataset.ref, dataset.bytes, f"{dataset.ref} {refusal}", allowed=False)
    return ActionDecision(action, dataset.ref, dataset.bytes, f"{dataset.ref} {message}", True, event, columns)


@dataclass(frozen=True)
class RecoveryDecision:
    """Decision on a requested recovery: what would be done, or why it is impossible."""

    ref: Ref
    message: str
    allowed: bool


def decide_recovery(ref: Ref, lineage: Lineage, costs: CostModel) -> RecoveryDecision:
    """Decide whether a generation can be restored to the cache, and how: by fetching it, or by re-running operations.

    A generation in the cache may be restored too, since its bytes may be lost without having been detected.
    """
    dataset = lineage.datasets[ref]
    if dataset.phase is not Phase.COMMITTED:
        return RecoveryDecision(ref, f"{ref} is {dataset.phase.value}, not committed", allowed=False)
    plan = plan_recovery(lineage.with_changes(replace(dataset, cache=CacheState.LOST)), [ref], costs)
    if reason := "; ".join(plan.irrecoverable.get(ref, ())):
        outcome = "is in the cache, and cannot be restored if it is lost" if dataset.in_cache else "cannot be restored"
        return RecoveryDecision(ref, f"{ref} {outcome}: {reason}", allowed=False)
    is_predicted = all(step.predicted for step in plan.steps)
    estimate = f"will be restored{f' in about {format_seconds(plan.seconds)}' if is_predicted else ''}"
    message = f"{estimate}: {'; then '.join(step.summary for step in plan.steps)}"
    if dataset.in_cache:
        message = f"is in the cache; its files are checked, and if they are damaged, it {message}"
    return RecoveryDecision(ref, f"{ref} {message}", allowed=True)


def apply_decision(platform: Platform, decision: ActionDecision, actor: str) -> None:
    """Apply the decision in the name of `actor`; raises `TransitionError` if it is not, or no longer, allowed."""
    if not decision.allowed:
        raise TransitionError(decision.message)
    if decision.action is DatasetAction.EVICT:
        if reason := platform.replacement.try_evict(victim_by_hand(decision.ref, decision.bytes), actor=actor):
            raise TransitionError(reason)
        return
    catalog = platform.catalog.acting_as(actor)
    catalog.amend(decision.ref, event=decision.event, reason="requested manually", **decision.columns)
    if decision.action in (DatasetAction.MARK, DatasetAction.UNMARK):
        _rescore(platform, decision.ref)


def _refusal_reason(
    dataset: Dataset,
    action: DatasetAction,
    has_readers: bool,
    recompute_obstacles: tuple[str, ...],
    eviction_blocker: str,
) -> str:
    """Return why an action is refused; empty if it is allowed."""
    if dataset.phase is not Phase.COMMITTED:
        return f"is {dataset.phase.value}, not committed"
    no_effect_reason = {
        DatasetAction.PERSIST: dataset.persisted and "is already persisted",
        DatasetAction.PIN: dataset.pinned and "is already pinned",
        DatasetAction.UNPIN: not dataset.pinned and "is not pinned",
        DatasetAction.EVICT: not dataset.in_cache and "is not in the cache",
        DatasetAction.MARK: dataset.checkpoint and "is already a checkpoint",
        DatasetAction.UNMARK: not dataset.checkpoint and "is not a checkpoint",
    }[action]
    if no_effect_reason:
        return str(no_effect_reason)
    if action is DatasetAction.PERSIST:
        if dataset.under is UnderStoreState.COPYING:
            return "is already being persisted"
        if not dataset.available and recompute_obstacles:
            return f"cannot be restored: {'; '.join(recompute_obstacles)}"
    if action is DatasetAction.EVICT:
        if not dataset.persisted:
            return "is not persisted; only persisted datasets can be evicted manually"
        if dataset.pinned:
            return "is pinned"
        if has_readers:
            return "is being read"
        if eviction_blocker:
            return f"stays in the cache: {eviction_blocker}"
    return ""


def _effect(dataset: Dataset, action: DatasetAction) -> tuple[str, str, dict[str, Any]]:
    """Return the description of an action, the event to log, and the columns that it changes."""
    if action is DatasetAction.PERSIST:
        return (
            "moves to the head of the queue",
            "expedited",
            {"expedited": True, "persist_requested": True, "not_before": 0.0},
        )
    if action is DatasetAction.EVICT:
        return f"is evicted, which frees {format_bytes(dataset.bytes)}; a copy is in the under-store", "", {}
    message = {
        DatasetAction.PIN: "is neither evicted nor retired until it is unpinned",
        DatasetAction.UNPIN: "can be evicted and retired again",
        DatasetAction.MARK: "counts as a checkpoint",
        DatasetAction.UNMARK: "no longer counts as a checkpoint",
    }[action]
    column = "pinned" if action in (DatasetAction.PIN, DatasetAction.UNPIN) else "checkpoint"
    return (
        message,
        f"{action}ned" if column == "pinned" else f"{action}ed",
        {column: action in (DatasetAction.PIN, DatasetAction.MARK)},
    )


def _rescore(platform: Platform, ref: Ref) -> None:
    """Update the stored score of a generation if it is queued."""
    catalog = platform.catalog
    lineage = catalog.lineage_around([ref])
    dataset = lineage.datasets[ref]
    if dataset.persist_requested and dataset.under is UnderStoreState.NONE:
        score = platform.persister.policy.score(ref, lineage, catalog.load_cost_model(lineage), catalog.now())
        platform.claims.rescore(ref, score.value)
