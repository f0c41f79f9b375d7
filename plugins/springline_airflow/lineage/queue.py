"""The queue as a page shows it: what is persisted next, why, how, and how long it has waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springline.airflow.lineage.access_filter import is_hidden
from springline.persistence.decisions.queue_plan import PlannedTransfer
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A planned transfer. `terms`: the components of its score; `completes_in`: seconds until it is completed."""

    position: int
    path: str
    generation: int
    bytes: int
    score: float
    terms: Mapping[str, float]
    reason: str
    expedited: bool
    method: str
    method_reason: str
    predicted_seconds: float | None
    completes_in: float | None
    waited_seconds: float
    waits_for: Sequence[str]
    last_error: str
    dag_id: str
    run_id: str
    task_id: str


def queue_entries(transfers: Sequence[PlannedTransfer], lineage: Lineage, now: float) -> list[QueueEntry]:
    """Return the transfers that are not hidden, in queue order; `lineage` is the one that they were planned with."""
    rows = []
    for each in transfers:
        dataset = lineage.datasets[each.ref]
        if is_hidden(each.ref.path):
            continue
        rows.append(
            QueueEntry(
                position=each.position,
                path=each.ref.path,
                generation=each.ref.generation,
                bytes=dataset.bytes,
                score=each.score.value,
                terms=dict(each.score.terms),
                reason=each.score.reason,
                expedited=dataset.expedited,
                method=each.plan.method.value,
                method_reason=each.plan.reason,
                predicted_seconds=each.plan.predicted.seconds if each.plan.predicted else None,
                completes_in=each.completes_in,
                waited_seconds=max(now - (dataset.committed_at or dataset.created_at), 0.0),
                waits_for=[str(ref) for ref in each.plan.waits_for],
                last_error=dataset.error,
                dag_id=dataset.origin.dag_id,
                run_id=dataset.origin.run_id,
                task_id=dataset.origin.task_id,
            )
        )
    return rows
