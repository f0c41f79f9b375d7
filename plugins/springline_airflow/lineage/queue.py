"""The queue as a person reads it: what is persisted next, why, how, and how long it has waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springline.airflow.lineage.access_filter import is_hidden
from springline.persistence.decisions.queue_plan import Planned
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Waiting:
    """One transfer to come. `terms`: what its score is made of; `through_in`: in so many seconds it is done."""

    turn: int
    path: str
    generation: int
    bytes: int
    score: float
    terms: Mapping[str, float]
    why: str
    head: bool
    method: str
    how: str
    predicted_seconds: float | None
    through_in: float | None
    waited_seconds: float
    waits_for: Sequence[str]
    last_error: str
    dag_id: str
    run_id: str
    task_id: str


def rows_of(planned: Sequence[Planned], lineage: Lineage, now: float) -> list[Waiting]:
    """Those transfers that have a name, in their turn; `lineage` is the one that they were planned by."""
    rows = []
    for each in planned:
        dataset = lineage.datasets[each.ref]
        if is_hidden(each.ref.path):
            continue
        rows.append(
            Waiting(
                turn=each.turn,
                path=each.ref.path,
                generation=each.ref.generation,
                bytes=dataset.bytes,
                score=each.score.value,
                terms=dict(each.score.terms),
                why=each.score.words,
                head=dataset.head,
                method=each.plan.method.value,
                how=each.plan.words,
                predicted_seconds=each.plan.predicted.seconds if each.plan.predicted else None,
                through_in=each.through_in,
                waited_seconds=max(now - (dataset.committed_at or dataset.created_at), 0.0),
                waits_for=[str(ref) for ref in each.plan.waits_for],
                last_error=dataset.error,
                dag_id=dataset.origin.dag_id,
                run_id=dataset.origin.run_id,
                task_id=dataset.origin.task_id,
            )
        )
    return rows
