"""One sentence on a generation: where its bytes are, and what their loss costs or what brings them back."""

from __future__ import annotations

from springline.persistence.decisions.recovery import RecoveryPlan
from springline.persistence.explain import Explanation
from springline.persistence.model.dataset import CacheState, DatasetStatus
from springline.persistence.text.formatting import format_count, format_seconds


def headline_of(explanation: Explanation, restoring: RecoveryPlan) -> str:
    """Return the sentence that matters most; `restoring` is what would bring the generation to the cache now."""
    dataset = explanation.dataset
    match explanation.status:
        case DatasetStatus.WRITING:
            return "Being written: readers see it after its commit."
        case DatasetStatus.ABANDONED:
            return f"Abandoned: its write failed{_because(dataset.error)}."
        case DatasetStatus.RETIRED:
            return "Retired: a newer generation superseded it, and its files are deleted."
        case DatasetStatus.IRRECOVERABLE:
            return f"Lost for good{_because('; '.join(explanation.recompute_obstacles))}."
        case DatasetStatus.LOST:
            return f"Lost: Recover {_describe_steps(restoring)}{_doubt(explanation, restoring)}."
        case DatasetStatus.PERSISTING:
            return f"Being copied to the under-store; until then only in the cache: {_describe_loss(explanation)}."
        case DatasetStatus.CACHED:
            never = "" if dataset.persist_requested else " It is not to be persisted."
            return f"Only in the cache: {_describe_loss(explanation)}.{never}"
    if not dataset.persisted:
        return f"Evicted and not persisted: the next read {_describe_steps(restoring)}."
    if explanation.unavailable_reason:
        in_cache = "its copy in the cache can be read" if dataset.in_cache else "it cannot be read until then"
        return f"Persisted, but the under-store does not answer; {in_cache}."
    if dataset.cache is CacheState.LOST:
        return f"Persisted, but lost from the cache: the next read, or Recover, {_describe_steps(restoring)}."
    if dataset.cache is CacheState.EVICTED:
        return f"Persisted, and evicted from the cache: the next read {_describe_steps(restoring)}."
    return "Persisted; nothing would have to be recomputed."


def _describe_loss(explanation: Explanation) -> str:
    """Return what a loss of the cache would cost, without its end."""
    plan = explanation.recovery
    if reasons := plan.irrecoverable.get(explanation.dataset.ref):
        return f"a loss would be for good, because {'; '.join(reasons)}"
    return f"after a loss, recovery {_describe_steps(plan)}{_doubt(explanation, plan)}"


def _describe_steps(plan: RecoveryPlan) -> str:
    """Return what a plan does, as a verb phrase: `re-runs 3 operations, about 12 s`."""
    reruns = sum(step.action == "recompute" for step in plan.steps)
    what = f"re-runs {format_count(reruns, 'operation')}" if reruns else "fetches it from the under-store"
    is_predicted = bool(plan.steps) and all(step.predicted for step in plan.steps)
    return f"{what}, about {format_seconds(plan.seconds)}" if is_predicted else what


def _doubt(explanation: Explanation, plan: RecoveryPlan) -> str:
    unproven = explanation.dataset.ref in plan.unproven
    return "; that their rows would be the same is declared, not proven" if unproven else ""


def _because(reason: str) -> str:
    return f": {reason.removesuffix('.')}" if reason else ""
