"""What would make a dataset safe from a loss of the cache: the action in one sentence, and its alternative."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from springline.airflow.lineage.access_filter import is_hidden
from springline.persistence.decisions.persist_status import PersistState, PersistStatus
from springline.persistence.decisions.proof import ProofPlan
from springline.persistence.model.dataset import Operation, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_list


@dataclass(frozen=True, slots=True)
class Remedy:
    """What makes a dataset safe: `sentence`, and `alternative`, which is empty if there is none.

    `state`: what keeps it from being persisted. `can_expedite`: it can be moved to the head of the queue; `refusal`:
    why you may not do that.
    """

    state: PersistState
    sentence: str
    alternative: str
    can_expedite: bool
    refusal: str


def remedy_sentence(status: PersistStatus, away: str) -> str:
    """Return the action that makes a dataset safe, which is always a copy in the under-store."""
    if away:
        effect = "its copy counts again then" if status.state is PersistState.PERSISTED else "it is persisted then"
        return f"Bring the under-store back; {effect}."
    if status.state is PersistState.NOT_REQUESTED:
        return f"Persist it now: {status.sentence}."
    return f"{'Persist it now, or wait' if status.can_expedite else 'Wait'}: {status.sentence}."


def irrecoverable_alternative(ref: Ref, causes: Sequence[Ref], lineage: Lineage) -> str:
    """Return what would make `ref` recomputable; `causes` are the generations whose operations cannot be re-run."""
    if not causes:
        return ""
    if ref not in causes:
        named = [cause for cause in causes if not is_hidden(cause.path)]
        return f"Or persist {format_list(named)}, from which it can be recomputed." if named == list(causes) else ""
    operation = lineage.operation_of(ref)
    if operation is None:
        return ""
    if not operation.runnable:
        return f"Or restore the version {operation.version} of its operation {operation.name}."
    return f"Or make its operation {operation.name} idempotent."


def unproven_alternative(
    operations: Collection[Operation], plans: Sequence[ProofPlan], *, is_prover_enabled: bool
) -> str:
    """Return how `operations`, which are only declared idempotent, are proven; names no dataset."""
    pending = {(plan.operation, plan.version): plan for plan in plans} if is_prover_enabled else {}
    parts = []
    for each in operations:
        plan = pending.get((each.name, each.version))
        if plan is None:
            parts.append(f"run `springline operation prove {each.name}`")
        elif plan.waits_for:
            parts.append(f"proof of {each.name} pending: its sources or space in the cache are missing")
        else:
            parts.append(f"proof of {each.name} pending: an idle persister runs it a second time")
    return f"{'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}." if parts else ""
