"""Everything about one generation of a dataset, as a page shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.persistence.explain import Explanation
from springline.persistence.model.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Named:
    """A generation by name, and where it is; its status leaves open whether it could be made again."""

    path: str
    generation: int
    status: str
    bytes: int
    created_at: float


@dataclass(frozen=True, slots=True)
class Happened:
    """One change of state: when (seconds since 1970), what, by whom, why, and the state after it."""

    at: float
    event: str
    who: str
    why: str
    phase: str
    cache: str
    under_store: str


@dataclass(frozen=True, slots=True)
class Chain:
    """What would be done, in order, to have it again without the cache; why it could not be."""

    steps: Sequence[str]
    seconds: float
    why_gone: Sequence[str]


@dataclass(frozen=True, slots=True)
class About:
    """A generation: what it is, where it is, why; others around it, of which some may be hidden."""

    path: str
    generation: int
    status: str
    cache: str
    under_store: str
    under_store_away: str  # why it does not answer; empty if it does
    bytes: int
    rows: int | None
    checksum: str
    under_checksum: str
    digest: str
    strategy: str
    wanted: bool
    checkpoint: bool
    pinned: bool
    superseded: bool
    reads: int
    operation: str
    version: str
    params: Mapping[str, str]
    dag_id: str
    run_id: str
    task_id: str
    created_at: float
    committed_at: float | None
    persisted_at: float | None
    last_read_at: float | None
    made_seconds: float | None
    method: str
    predicted_seconds: float | None
    actual_seconds: float | None
    attempts: int
    error: str
    report: Mapping[str, Any] | None
    words: Mapping[str, str]  # by title
    chain: Chain
    generations: Sequence[Named]
    sources: Sequence[Named]
    dependents: Sequence[Named]
    refused: Mapping[str, str]  # wishes that you may not have, and why
    hidden: int  # sources and dependents that you may not read
    history: Sequence[Happened]


def about(
    told: Explanation,
    *,
    generations: Iterable[Dataset],
    sources: Iterable[Dataset],
    dependents: Iterable[Dataset],
    reads: Callable[[Dataset], bool],
    refused: Mapping[str, str],
) -> About:
    """Put together what is known of one generation; of the others only those that `reads` lets through.

    `refused`: the wishes that whoever asks may not have, each with the reason.
    """
    dataset = told.dataset
    sources, dependents = list(sources), list(dependents)
    return About(
        path=dataset.ref.path,
        generation=dataset.ref.generation,
        status=told.status.value,
        cache=dataset.cache.value,
        under_store=dataset.under.value,
        under_store_away=told.away,
        bytes=dataset.bytes,
        rows=dataset.rows,
        checksum=dataset.checksum,
        under_checksum=dataset.under_checksum,
        digest=dataset.digest,
        strategy=dataset.strategy.value,
        wanted=dataset.wanted,
        checkpoint=dataset.checkpoint,
        pinned=dataset.pinned,
        superseded=dataset.superseded,
        reads=dataset.reads,
        operation=dataset.call.name if dataset.call else "",
        version=dataset.call.version if dataset.call else "",
        params=dict(dataset.call.params) if dataset.call else {},
        dag_id=dataset.origin.dag_id,
        run_id=dataset.origin.run_id,
        task_id=dataset.origin.task_id,
        created_at=dataset.created_at,
        committed_at=dataset.committed_at,
        persisted_at=dataset.persisted_at,
        last_read_at=dataset.last_read_at,
        made_seconds=dataset.made_seconds,
        method=dataset.method.value if dataset.method else "",
        predicted_seconds=dataset.predicted_seconds,
        actual_seconds=dataset.actual_seconds,
        attempts=dataset.attempts,
        error=dataset.error,
        report=dataset.report,
        words=dict(told.paragraphs()),
        chain=Chain(
            [step.words for step in told.recovery.steps],
            told.recovery.seconds,
            list(told.recovery.irrecoverable.get(dataset.ref, ())),
        ),
        generations=[_named(each) for each in generations if reads(each)],
        sources=[_named(each) for each in sources if reads(each)],
        dependents=[_named(each) for each in dependents if reads(each)],
        refused=refused,
        hidden=sum(not reads(each) for each in (*sources, *dependents)),
        history=[
            Happened(m.at, m.event, m.who, m.why, m.phase.value, m.cache.value, m.under.value) for m in told.moments
        ],
    )


def _named(dataset: Dataset) -> Named:
    ref = dataset.ref
    return Named(ref.path, ref.generation, dataset.status().value, dataset.bytes, dataset.created_at)
