"""Proof: which operations are run a second time, on what, before what they made is believed to come back.

An operation that is declared idempotent is proven by one more run on the same source generations that gives the same
digest. It is asked for once something that it made is large or dear. Source: docs/persistence.md, "Proofs".
"""

from __future__ import annotations

from dataclasses import dataclass

from springline.persistence.model.cost_model import Costs, Prediction
from springline.persistence.model.dataset import Dataset, Idempotence, Operation, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_bytes, say_list, say_seconds


@dataclass(frozen=True)
class Bounds:
    """From which bytes of one output on, or which seconds to make it, an operation is to be proven."""

    bytes: int
    seconds: float

    def reached_by(self, dataset: Dataset) -> bool:
        """Whether it is large or dear."""
        return dataset.bytes >= self.bytes or (dataset.made_seconds or 0.0) >= self.seconds


@dataclass(frozen=True)
class ProofPlan:
    """The second run that would prove an operation at its version: it makes `witness` again, beside the first one.

    `waits_for` says what has to be before it can be run; empty: it can be run now.
    """

    operation: str
    version: str
    witness: Ref
    bytes: int
    predicted: Prediction | None
    waits_for: str
    words: str


def plan_proofs(lineage: Lineage, costs: Costs, bounds: Bounds, room: int) -> tuple[ProofPlan, ...]:
    """The proofs to come: those that can be run now first, then by the bytes of what is made again.

    `lineage` holds outputs of the operations that are only declared idempotent, and their sources. The witness is the
    largest output with a digest whose sources are at hand and that fits into `room` bytes of the cache.
    """
    outputs: dict[tuple[str, str], list[Dataset]] = {}
    for dataset in lineage.datasets.values():
        if dataset.call and dataset.phase is Phase.COMMITTED and dataset.digest:
            outputs.setdefault((dataset.call.name, dataset.call.version), []).append(dataset)
    plans = []
    for key, made in outputs.items():
        operation = lineage.operations.get(key)
        if operation is None or operation.idempotence is not Idempotence.DECLARED or not operation.runnable:
            continue
        if any(map(bounds.reached_by, made)):
            plans.append(_plan(operation, made, lineage, costs, room))
    return tuple(sorted(plans, key=lambda plan: (bool(plan.waits_for), -plan.bytes, plan.operation)))


def _plan(operation: Operation, made: list[Dataset], lineage: Lineage, costs: Costs, room: int) -> ProofPlan:
    """The second run on the largest output that can be made again now; else on the largest, with what it waits for."""
    largest_first = sorted(made, key=lambda d: (-d.bytes, d.ref))
    possible = (d for d in largest_first if not _obstacle(d, lineage, room))
    witness = next(possible, largest_first[0])
    waits_for = _obstacle(witness, lineage, room)
    predicted = costs.rerun(witness.ref, lineage)
    inputs = f" on {say_list(witness.sources)}" if witness.sources else ""
    takes = f" ({say_seconds(predicted.seconds)})" if predicted else ""
    words = (
        f"{operation.name} (version {operation.version}) is run a second time{inputs}, and the digest compared with "
        f"that of {witness.ref}{takes}"
    )
    return ProofPlan(operation.name, operation.version, witness.ref, witness.bytes, predicted, waits_for, words)


def _obstacle(dataset: Dataset, lineage: Lineage, room: int) -> str:
    """What keeps a generation from being made a second time now; empty if nothing does."""
    known = lineage.datasets
    if away := [source for source in dataset.sources if source not in known or not known[source].available]:
        return f"{say_list(away)} to be at hand"
    if dataset.bytes > room:
        return f"room in the cache: {say_bytes(dataset.bytes)} are needed, {say_bytes(max(room, 0))} are free"
    return ""
