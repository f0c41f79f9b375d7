"""All details of one generation of a dataset, as a page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.airflow.lineage.possible_actions import permitted_actions
from springline.persistence.explain import Explanation
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.table_uri import tables_read


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A generation by name and status; the status does not say whether it could be recomputed."""

    path: str
    generation: int
    status: str
    bytes: int
    created_at: float


@dataclass(frozen=True, slots=True)
class DatasetEvent:
    """A change of state: when (seconds since 1970), what, by whom, why, and the state after it."""

    timestamp: float
    event: str
    actor: str
    reason: str
    phase: str
    cache: str
    under_store: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps to restore the generation without the cache, in order, or why that is impossible."""

    steps: Sequence[str]
    seconds: float
    irrecoverable_reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatasetDetail:
    """A generation: its content, location and history, and its related generations, of which some may be hidden.

    `headline`: the sentence that matters most. `actions`: those that are possible now and that you may perform;
    `refused`: those that you may not perform, and why.
    """

    path: str
    generation: int
    status: str
    headline: str
    cache: str
    under_store: str
    under_store_away: str  # why it does not respond; empty if it does
    bytes: int
    rows: int | None
    checksum: str
    under_checksum: str
    digest: str
    strategy: str
    persist_requested: bool
    checkpoint: bool
    pinned: bool
    superseded: bool
    reads: int
    operation: str
    version: str
    params: Mapping[str, str]
    tables: tuple[str, ...]  # of Delta Lake or Iceberg that it was made from, each with its version
    dag_id: str
    run_id: str
    task_id: str
    created_at: float
    committed_at: float | None
    persisted_at: float | None
    last_read_at: float | None
    compute_seconds: float | None
    method: str
    predicted_seconds: float | None
    actual_seconds: float | None
    attempts: int
    error: str
    report: Mapping[str, Any] | None
    paragraphs: Mapping[str, str]  # by title
    chain: Chain
    generations: Sequence[DatasetSummary]
    sources: Sequence[DatasetSummary]
    dependents: Sequence[DatasetSummary]
    actions: Sequence[str]
    refused: Mapping[str, str]
    hidden: int  # sources and dependents that you may not read
    history: Sequence[DatasetEvent]


def build_detail(
    explanation: Explanation,
    *,
    headline: str,
    generations: Iterable[Dataset],
    sources: Iterable[Dataset],
    dependents: Iterable[Dataset],
    may_read: Callable[[Dataset], bool],
    actions: Sequence[str],
    refused: Mapping[str, str],
) -> DatasetDetail:
    """Collect the details of one generation; of related generations only those that `may_read` accepts.

    `actions`: those that are possible in its state; `refused`: why the user may not perform an action.
    """
    dataset = explanation.dataset
    sources, dependents = list(sources), list(dependents)
    permitted, not_permitted = permitted_actions(actions, refused)
    return DatasetDetail(
        path=dataset.ref.path,
        generation=dataset.ref.generation,
        status=explanation.status.value,
        headline=headline,
        cache=dataset.cache.value,
        under_store=dataset.under.value,
        under_store_away=explanation.unavailable_reason,
        bytes=dataset.bytes,
        rows=dataset.rows,
        checksum=dataset.checksum,
        under_checksum=dataset.under_checksum,
        digest=dataset.digest,
        strategy=dataset.strategy.value,
        persist_requested=dataset.persist_requested,
        checkpoint=dataset.checkpoint,
        pinned=dataset.pinned,
        superseded=dataset.superseded,
        reads=dataset.reads,
        operation=dataset.call.name if dataset.call else "",
        version=dataset.call.version if dataset.call else "",
        params=dict(dataset.call.params) if dataset.call else {},
        tables=tables_read(dataset),
        dag_id=dataset.origin.dag_id,
        run_id=dataset.origin.run_id,
        task_id=dataset.origin.task_id,
        created_at=dataset.created_at,
        committed_at=dataset.committed_at,
        persisted_at=dataset.persisted_at,
        last_read_at=dataset.last_read_at,
        compute_seconds=dataset.compute_seconds,
        method=dataset.method.value if dataset.method else "",
        predicted_seconds=dataset.predicted_seconds,
        actual_seconds=dataset.actual_seconds,
        attempts=dataset.attempts,
        error=dataset.error,
        report=dataset.report,
        paragraphs=dict(explanation.paragraphs()),
        chain=Chain(
            [step.summary for step in explanation.recovery.steps],
            explanation.recovery.seconds,
            list(explanation.recovery.irrecoverable.get(dataset.ref, ())),
        ),
        generations=[_summary_of(each) for each in generations if may_read(each)],
        sources=[_summary_of(each) for each in sources if may_read(each)],
        dependents=[_summary_of(each) for each in dependents if may_read(each)],
        actions=permitted,
        refused=not_permitted,
        hidden=sum(not may_read(each) for each in (*sources, *dependents)),
        history=[
            DatasetEvent(m.timestamp, m.event, m.actor, m.reason, m.phase.value, m.cache.value, m.under.value)
            for m in explanation.moments
        ],
    )


def _summary_of(dataset: Dataset) -> DatasetSummary:
    ref = dataset.ref
    return DatasetSummary(ref.path, ref.generation, dataset.status().value, dataset.bytes, dataset.created_at)
