"""Proofs: which operations are run a second time, and on which sources, before they are trusted for recovery.

An operation that is declared idempotent is proven by one more run on the same source generations that gives the same
digest. It is to be proven once one of its outputs is large or expensive. Source: docs/persistence.md, "Proofs".
"""

from __future__ import annotations

from dataclasses import dataclass

from springline.persistence.model.cost_model import CostModel, Prediction
from springline.persistence.model.dataset import Dataset, Idempotence, Operation, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_bytes, format_list, format_seconds


@dataclass(frozen=True)
class ProofThresholds:
    """Bytes of an output and seconds to make it from which on an operation is to be proven."""

    bytes: int
    seconds: float

    def is_reached_by(self, dataset: Dataset) -> bool:
        """Whether the dataset reaches a threshold."""
        return dataset.bytes >= self.bytes or (dataset.compute_seconds or 0.0) >= self.seconds


@dataclass(frozen=True)
class ProofPlan:
    """The second run that would prove an operation in its version: it recomputes `witness` beside the original.

    `waits_for` names the missing precondition; empty: it can be run now.
    """

    operation: str
    version: str
    witness: Ref
    bytes: int
    predicted: Prediction | None
    waits_for: str
    summary: str


def plan_proofs(
    lineage: Lineage, costs: CostModel, thresholds: ProofThresholds, free_bytes: int
) -> tuple[ProofPlan, ...]:
    """Return the planned proofs: those that can be run now first, then by the bytes to recompute.

    `lineage` contains outputs of the operations that are only declared idempotent, and their sources. The witness is
    the largest output with a digest whose sources are available and that fits into `free_bytes` bytes of the cache.
    """
    outputs: dict[tuple[str, str], list[Dataset]] = {}
    for dataset in lineage.datasets.values():
        if dataset.call and dataset.phase is Phase.COMMITTED and dataset.digest:
            outputs.setdefault((dataset.call.name, dataset.call.version), []).append(dataset)
    plans = []
    for key, datasets in outputs.items():
        operation = lineage.operations.get(key)
        if operation is None or operation.idempotence is not Idempotence.DECLARED or not operation.runnable:
            continue
        if any(map(thresholds.is_reached_by, datasets)):
            plans.append(_plan_proof(operation, datasets, lineage, costs, free_bytes))
    return tuple(sorted(plans, key=lambda plan: (bool(plan.waits_for), -plan.bytes, plan.operation)))


def _plan_proof(
    operation: Operation, outputs: list[Dataset], lineage: Lineage, costs: CostModel, free_bytes: int
) -> ProofPlan:
    """Plan the second run on the largest output that can be recomputed now; else on the largest, with its obstacle."""
    largest_first = sorted(outputs, key=lambda d: (-d.bytes, d.ref))
    possible = (d for d in largest_first if not _obstacle(d, lineage, free_bytes))
    witness = next(possible, largest_first[0])
    waits_for = _obstacle(witness, lineage, free_bytes)
    predicted = costs.predict_rerun(witness.ref, lineage)
    inputs = f" on {format_list(witness.sources)}" if witness.sources else ""
    takes = f" ({format_seconds(predicted.seconds)})" if predicted else ""
    summary = (
        f"{operation.name} (version {operation.version}) is run a second time{inputs}, and the digest compared with "
        f"that of {witness.ref}{takes}"
    )
    return ProofPlan(operation.name, operation.version, witness.ref, witness.bytes, predicted, waits_for, summary)


def _obstacle(dataset: Dataset, lineage: Lineage, free_bytes: int) -> str:
    """Return what prevents a second run for this generation now; empty if nothing does."""
    datasets = lineage.datasets
    if unavailable := [
        source for source in dataset.sources if source not in datasets or not datasets[source].available
    ]:
        return f"{format_list(unavailable)} to be available"
    if dataset.bytes > free_bytes:
        return (
            f"free space in the cache: {format_bytes(dataset.bytes)} are needed, "
            f"{format_bytes(max(free_bytes, 0))} are free"
        )
    return ""
