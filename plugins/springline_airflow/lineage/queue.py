"""The queue as a page shows it: what is sent now, what comes next and why, and what waits for another attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from springline.airflow.lineage.access_filter import is_hidden
from springline.persistence.catalog.wait_report import ActiveTransfer, PausedTransfer
from springline.persistence.decisions.persist_status import QueuePlace
from springline.persistence.decisions.priority import Score
from springline.persistence.decisions.queue_plan import PlannedTransfer
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class WhatIfPlace:
    """The place of a generation in the queue under another policy; nothing is changed by asking."""

    position: int
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A planned transfer.

    `terms`: the components of its score. `recompute_seconds`: to run its operation again; None: never measured, or
    `irrecoverable`. `completes_in`: seconds until it is persisted.
    """

    position: int
    path: str
    generation: int
    bytes: int
    recompute_seconds: float | None
    irrecoverable: bool
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
    what_if: WhatIfPlace | None = None


@dataclass(frozen=True, slots=True)
class SendingEntry:
    """A transfer under way: `sent_bytes` of a transfer as data as last reported, `seconds` since it began.

    `is_blocking`: a task waits for it, since it is persisted before its commit.
    """

    path: str
    generation: int
    bytes: int
    sent_bytes: int
    method: str
    seconds: float
    predicted_seconds: float | None
    owner: str
    attempts: int
    is_blocking: bool


@dataclass(frozen=True, slots=True)
class RetryEntry:
    """A generation whose last attempt failed; the next one may begin in `retry_in` seconds.

    `refusal`: why you may not move it to the head of the queue, which retries it at once.
    """

    path: str
    generation: int
    bytes: int
    attempts: int
    retry_in: float
    error: str
    refusal: str


def queue_entries(
    transfers: Sequence[PlannedTransfer],
    lineage: Lineage,
    costs: CostModel,
    now: float,
    what_if: Mapping[Ref, WhatIfPlace],
) -> list[QueueEntry]:
    """Return the transfers that are not hidden, in queue order; `lineage` is the one that they were planned with."""
    rows = []
    for each in transfers:
        dataset = lineage.datasets[each.ref]
        if is_hidden(each.ref.path):
            continue
        irrecoverable = not lineage.is_recomputable(each.ref)
        rerun = None if irrecoverable else costs.predict_rerun(each.ref, lineage)
        rows.append(
            QueueEntry(
                position=each.position,
                path=each.ref.path,
                generation=each.ref.generation,
                bytes=dataset.bytes,
                recompute_seconds=rerun.seconds if rerun else None,
                irrecoverable=irrecoverable,
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
                what_if=what_if.get(each.ref),
            )
        )
    return rows


def what_if_places(order: Sequence[tuple[Ref, Score]]) -> dict[Ref, WhatIfPlace]:
    """Return the place of each generation in the order of another policy."""
    return {ref: WhatIfPlace(position, score.value, score.reason) for position, (ref, score) in enumerate(order, 1)}


def queue_place(transfer: PlannedTransfer) -> QueuePlace:
    """Return the place of a planned transfer."""
    return QueuePlace(transfer.position, transfer.completes_in, transfer.plan.waits_for)


def sending_entries(transfers: Sequence[ActiveTransfer], may_read_dag: Callable[[str], bool]) -> list[SendingEntry]:
    """Return the transfers under way of the DAGs that `may_read_dag` accepts, the oldest first."""
    return [
        SendingEntry(
            path=each.ref.path,
            generation=each.ref.generation,
            bytes=each.bytes,
            sent_bytes=each.sent_bytes,
            method=each.method.value,
            seconds=each.seconds,
            predicted_seconds=each.predicted_seconds,
            owner=each.owner,
            attempts=each.attempts,
            is_blocking=each.is_blocking,
        )
        for each in transfers
        if may_read_dag(each.dag_id)
    ]


def retry_entries(
    pauses: Sequence[PausedTransfer], may_read_dag: Callable[[str], bool], change_refusal: Callable[[str], str]
) -> list[RetryEntry]:
    """Return the failed generations of the DAGs that `may_read_dag` accepts, the next attempt first.

    `change_refusal` returns why what a DAG wrote may not be changed; empty if it may be.
    """
    return [
        RetryEntry(
            path=each.ref.path,
            generation=each.ref.generation,
            bytes=each.bytes,
            attempts=each.attempts,
            retry_in=each.seconds,
            error=each.error,
            refusal=change_refusal(each.dag_id),
        )
        for each in pauses
        if may_read_dag(each.dag_id)
    ]


def seconds_until_empty(
    transfers: Sequence[PlannedTransfer], lineage: Lineage, costs: CostModel, queued_bytes: int
) -> float | None:
    """Predict the seconds until one persister has emptied the queue; None until the link has been measured.

    `transfers` is the head of the queue; what else is queued, of `queued_bytes` in all, is predicted by its bytes.
    """
    planned_bytes = sum(lineage.datasets[each.ref].bytes for each in transfers)
    rest = costs.predict_transfer(max(queued_bytes - planned_bytes, 0))
    planned = transfers[-1].completes_in if transfers else 0.0
    if rest is None or planned is None:
        return None
    return planned + (rest.seconds if queued_bytes > planned_bytes else 0.0)
