"""Recovery: what has to be fetched or run again, in which order, to have lost generations back, and what cannot.

Every generation has one operation and exact sources, so the least work is what the missing targets lack
upstream, each once. Source: the paper, "Faults"; docs/persistence.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from springline.persistence.model.cost_model import Costs, Prediction
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_list


@dataclass(frozen=True)
class Step:
    """One thing to do: fetch a persisted generation into the cache, or recompute a lost one."""

    ref: Ref
    action: str  # "fetch" | "recompute"
    predicted: Prediction | None
    words: str


@dataclass(frozen=True)
class RecoveryPlan:
    """Steps in the order in which they can be done, what cannot be brought back and why, and predicted seconds.

    `unproven`: the targets that come back only if operations keep their word that were never seen to repeat.
    """

    steps: tuple[Step, ...]
    irrecoverable: Mapping[Ref, tuple[str, ...]]
    seconds: float
    unproven: Mapping[Ref, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Risk:
    """What the loss of the whole cache would cost: bytes in three parts, and the seconds to make the first two again.

    Recomputable: by operations that were seen to repeat their digest. Unproven: only if an operation keeps its word
    that was never seen to. Irrecoverable: gone for good.
    """

    bytes: int
    recomputable_bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float
    recomputable: tuple[Ref, ...]
    unproven: tuple[Ref, ...]
    irrecoverable: tuple[Ref, ...]


def plan_recovery(lineage: Lineage, targets: Collection[Ref], costs: Costs) -> RecoveryPlan:
    """The least work that brings all of `targets` back.

    Targets in the cache need nothing, persisted ones are fetched; what they need upstream is recomputed,
    and persisted sources are read where they are.
    """
    order, blocked = lineage.chains(targets)
    steps = [_fetch(lineage, ref, costs) for ref in dict.fromkeys(targets) if _only_below(lineage, ref)]
    wanted = frozenset(targets)
    steps += [_recompute(lineage, ref, costs, asked=ref in wanted) for ref in order]
    seconds = sum(step.predicted.seconds for step in steps if step.predicted)
    return RecoveryPlan(tuple(steps), blocked, seconds, lineage.unproven(targets))


def at_risk(lineage: Lineage, costs: Costs) -> Risk:
    """What a loss of the whole cache now would cost.

    Counts every committed generation whose only bytes are in the cache. The seconds include evicted
    generations that would have to be run again on the way.
    """
    exposed = sorted(exposed_in(lineage), key=lambda d: d.ref)
    after = lineage.changed(*(replace(d, cache=Cache.LOST) for d in exposed))
    plan = plan_recovery(after, [d.ref for d in exposed], costs)
    gone = [d for d in exposed if d.ref in plan.irrecoverable]
    unproven = [d for d in exposed if d.ref in plan.unproven]
    back = [d for d in exposed if d.ref not in plan.irrecoverable and d.ref not in plan.unproven]
    return Risk(
        bytes=_total(exposed),
        recomputable_bytes=_total(back),
        unproven_bytes=_total(unproven),
        irrecoverable_bytes=_total(gone),
        recompute_seconds=plan.seconds,
        recomputable=tuple(d.ref for d in back),
        unproven=tuple(d.ref for d in unproven),
        irrecoverable=tuple(d.ref for d in gone),
    )


def exposed_in(lineage: Lineage) -> list[Dataset]:
    """The committed generations whose only bytes are in the cache."""
    return [d for d in lineage.datasets.values() if d.phase is Phase.COMMITTED and d.in_cache and not d.persisted]


def _only_below(lineage: Lineage, ref: Ref) -> bool:
    dataset = lineage.datasets.get(ref)
    return dataset is not None and dataset.available and not dataset.in_cache


def _fetch(lineage: Lineage, ref: Ref, costs: Costs) -> Step:
    predicted = costs.send(lineage.datasets[ref].bytes)
    return Step(ref, "fetch", predicted, f"fetch {ref} from the under-store{_how_long(predicted)}")


def _recompute(lineage: Lineage, ref: Ref, costs: Costs, *, asked: bool) -> Step:
    dataset = lineage.datasets[ref]
    name = dataset.call.name if dataset.call else "?"
    inputs = f" on {say_list(dataset.sources)}" if dataset.sources else ""
    why = "" if asked else ", which a later step reads"
    predicted = costs.rerun(ref, lineage)
    return Step(ref, "recompute", predicted, f"run {name}{inputs} to have {ref} again{why}{_how_long(predicted)}")


def _how_long(predicted: Prediction | None) -> str:
    return f" ({predicted.words})" if predicted else " (never measured)"


def _total(datasets: Iterable[Dataset]) -> int:
    return sum(dataset.bytes for dataset in datasets)
