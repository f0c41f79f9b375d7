"""Recovery: what is fetched or recomputed, in which order, to restore lost generations, and what is irrecoverable.

Every generation has one operation and exact sources, so the minimal work is every missing ancestor of the targets,
each once. Source: the paper, "Faults"; docs/persistence.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from springline.persistence.model.cost_model import CostModel, Prediction
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_list


@dataclass(frozen=True)
class RecoveryStep:
    """One step: fetch a persisted generation into the cache, or recompute a lost one."""

    ref: Ref
    action: str  # "fetch" | "recompute"
    predicted: Prediction | None
    summary: str


@dataclass(frozen=True)
class RecoveryPlan:
    """The steps in executable order, what is irrecoverable and why, and the predicted seconds.

    `unproven`: the targets that are restored only if unproven operations are in fact idempotent.
    """

    steps: tuple[RecoveryStep, ...]
    irrecoverable: Mapping[Ref, tuple[str, ...]]
    seconds: float
    unproven: Mapping[Ref, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Risk:
    """The cost of a loss of the whole cache: bytes in three classes, and the seconds to recompute the first two.

    Recomputable: by proven operations. Unproven: only if an unproven operation is in fact idempotent.
    Irrecoverable: lost for good.
    """

    bytes: int
    recomputable_bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float
    recomputable: tuple[Ref, ...]
    unproven: tuple[Ref, ...]
    irrecoverable: tuple[Ref, ...]


def plan_recovery(lineage: Lineage, targets: Collection[Ref], costs: CostModel) -> RecoveryPlan:
    """Plan the minimal work that restores all of `targets`.

    Targets in the cache need nothing, persisted ones are fetched; missing ancestors are recomputed,
    and persisted sources are read in place.
    """
    order, blocked = lineage.recompute_order(targets)
    steps = [_fetch(lineage, ref, costs) for ref in dict.fromkeys(targets) if _is_only_in_under_store(lineage, ref)]
    target_refs = frozenset(targets)
    steps += [_recompute(lineage, ref, costs, is_target=ref in target_refs) for ref in order]
    seconds = sum(step.predicted.seconds for step in steps if step.predicted)
    return RecoveryPlan(tuple(steps), blocked, seconds, lineage.find_unproven(targets))


def assess_risk(lineage: Lineage, costs: CostModel) -> Risk:
    """Return the cost of a loss of the whole cache now.

    Counts every committed generation whose only bytes are in the cache. The seconds include evicted
    generations that would have to be recomputed for them.
    """
    exposed = sorted(exposed_datasets(lineage), key=lambda d: d.ref)
    lineage_after_loss = lineage.with_changes(*(replace(d, cache=CacheState.LOST) for d in exposed))
    plan = plan_recovery(lineage_after_loss, [d.ref for d in exposed], costs)
    irrecoverable = [d for d in exposed if d.ref in plan.irrecoverable]
    unproven = [d for d in exposed if d.ref in plan.unproven]
    recomputable = [d for d in exposed if d.ref not in plan.irrecoverable and d.ref not in plan.unproven]
    return Risk(
        bytes=_total_bytes(exposed),
        recomputable_bytes=_total_bytes(recomputable),
        unproven_bytes=_total_bytes(unproven),
        irrecoverable_bytes=_total_bytes(irrecoverable),
        recompute_seconds=plan.seconds,
        recomputable=tuple(d.ref for d in recomputable),
        unproven=tuple(d.ref for d in unproven),
        irrecoverable=tuple(d.ref for d in irrecoverable),
    )


def exposed_datasets(lineage: Lineage) -> list[Dataset]:
    """Return the committed generations whose only bytes are in the cache."""
    return [d for d in lineage.datasets.values() if d.phase is Phase.COMMITTED and d.in_cache and not d.persisted]


def _is_only_in_under_store(lineage: Lineage, ref: Ref) -> bool:
    dataset = lineage.datasets.get(ref)
    return dataset is not None and dataset.available and not dataset.in_cache


def _fetch(lineage: Lineage, ref: Ref, costs: CostModel) -> RecoveryStep:
    predicted = costs.predict_transfer(lineage.datasets[ref].bytes)
    return RecoveryStep(ref, "fetch", predicted, f"fetch {ref} from the under-store{_format_prediction(predicted)}")


def _recompute(lineage: Lineage, ref: Ref, costs: CostModel, *, is_target: bool) -> RecoveryStep:
    dataset = lineage.datasets[ref]
    name = dataset.call.name if dataset.call else "?"
    inputs = f" on {format_list(dataset.sources)}" if dataset.sources else ""
    purpose = "" if is_target else ", which a later step reads"
    predicted = costs.predict_rerun(ref, lineage)
    return RecoveryStep(
        ref, "recompute", predicted, f"run {name}{inputs} to recompute {ref}{purpose}{_format_prediction(predicted)}"
    )


def _format_prediction(predicted: Prediction | None) -> str:
    return f" ({predicted.summary})" if predicted else " (never measured)"


def _total_bytes(datasets: Iterable[Dataset]) -> int:
    return sum(dataset.bytes for dataset in datasets)
