"""The persist queue over HTTP: what is sent now, what comes next and why, and why one dataset is not persisted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Query

from springline.airflow.api.access import ReadAccessDep
from springline.airflow.api.datasets import MOST_GENERATIONS, Name, PlatformDep, name_redactor
from springline.airflow.api.persister import no_claim_reason
from springline.airflow.api.readable_queue import load_readable_queue
from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.lineage.queue import (
    QueueEntry,
    RetryEntry,
    SendingEntry,
    queue_entries,
    retry_entries,
    seconds_until_empty,
    sending_entries,
    what_if_places,
)
from springline.persistence.catalog.wait_report import explain_waits, load_claim_states, load_wait_report
from springline.persistence.decisions.persist_status import PersistState, QueuePlace, persist_status
from springline.persistence.decisions.priority import order_by_priority
from springline.persistence.explain import find_dataset
from springline.persistence.extensions import POLICIES
from springline.persistence.policies import load_policy

_MOST_ENTRIES = 500
_CANDIDATES = 10  # generations whose scores are recomputed, for each one that is listed

router = APIRouter(tags=["datasets"])


@dataclass(frozen=True, slots=True)
class QueueListing:
    """The queue; `depth` and `bytes` count all that is not persisted yet, including what you may not read.

    `what_if`: the policy that the entries are compared with; empty if none was asked for. `empty_in`: predicted
    seconds until one persister has emptied the queue. `under_store_away`: why nothing can be transferred now; empty if
    the under-store responds. `oldest_seconds`: how long the oldest dataset that could be persisted now has waited.
    `wait_reason`: why datasets are waiting.
    """

    policy: str
    what_if: str
    policies: Sequence[str]  # names of all installed policies
    depth: int
    bytes: int
    empty_in: float | None
    under_store_away: str
    oldest_seconds: float | None
    wait_reason: str
    sending: Sequence[SendingEntry]
    entries: Sequence[QueueEntry]
    retries: Sequence[RetryEntry]


@dataclass(frozen=True, slots=True)
class PersistExplanation:
    """Why a generation is not persisted, or that it is, in one sentence.

    `position` in the queue counts from 1; 0: it is not in the queue. `can_expedite`: it could be moved to the head of
    the queue; `refusal`: why you may not do that. `wait_reason`: why nothing is taken from the queue now.
    """

    path: str
    generation: int
    state: PersistState
    sentence: str
    position: int
    can_expedite: bool
    refusal: str
    wait_reason: str


@router.get("/queue")
def queue(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    session: SessionDep,
    what_if: Annotated[
        str, Query(description="Policy to compare with: each entry gets the position that it would have")
    ] = "",
    limit: Annotated[
        int, Query(ge=1, le=_MOST_ENTRIES, description="Maximum number of entries from the head of the queue")
    ] = 20,
) -> QueueListing:
    """Return what is persisted next and why, of the datasets that you may read; positions count the whole queue."""
    planned = load_readable_queue(platform, read_access, _CANDIDATES * limit)
    places = {}
    if what_if:
        other = load_policy(platform.settings, what_if)
        refs = [each.ref for each in planned.transfers]
        places = what_if_places(order_by_priority(refs, planned.lineage, planned.costs, other, planned.now))
    rows = queue_entries(planned.transfers[:limit], planned.lineage, planned.costs, planned.now, places)
    waits = load_wait_report(platform.catalog)
    wait_reason = explain_waits(waits, partial(no_claim_reason, session))
    retries = retry_entries(waits.pauses, read_access.may_read_dag, read_access.dag_change_refusal)
    errors = [each.last_error for each in rows] + [each.error for each in retries]
    redact_names = name_redactor(platform, read_access, [wait_reason, *errors])
    depth, size = platform.claims.queue_size()
    return QueueListing(
        policy=platform.settings.policy,
        what_if=what_if,
        policies=POLICIES.names,
        depth=depth,
        bytes=size,
        empty_in=seconds_until_empty(planned.transfers, planned.lineage, planned.costs, size),
        under_store_away=platform.watch.unavailable_reason(),
        oldest_seconds=waits.oldest_wait_seconds,
        wait_reason=redact_names(wait_reason),
        sending=sending_entries(waits.transfers, read_access.may_read_dag),
        entries=[replace(row, last_error=redact_names(row.last_error)) for row in rows],
        retries=[replace(each, error=redact_names(each.error)) for each in retries],
    )


@router.get("/queue/explain")
def explain(
    path: Annotated[Name, Query(description="Path of the dataset")],
    read_access: ReadAccessDep,
    platform: PlatformDep,
    session: SessionDep,
    generation: Annotated[int | None, Query(ge=1, le=MOST_GENERATIONS, description="Default: the newest")] = None,
) -> PersistExplanation:
    """Return why a dataset is not persisted yet, whether it is in the queue or not."""
    dataset = find_dataset(platform, path, generation)
    read_access.require_read(dataset)
    catalog, away = platform.catalog, platform.watch.unavailable_reason()
    lineage = redact_hidden(catalog.lineage_around([dataset.ref], down=False), read_access.may_read)
    claim = load_claim_states(catalog, [dataset.ref])[dataset.ref]
    place = load_readable_queue(platform, read_access).places().get(dataset.ref, QueuePlace())
    obstacles = lineage.recompute_obstacles(dataset.ref)
    status = persist_status(dataset, claim, place, obstacles=obstacles, away=away)
    is_queued = status.state is PersistState.QUEUED
    waits = load_wait_report(catalog)
    wait_reason = explain_waits(waits, partial(no_claim_reason, session)) if is_queued and not away else ""
    redact_names = name_redactor(platform, read_access, [status.sentence, wait_reason])
    return PersistExplanation(
        path=path,
        generation=dataset.ref.generation,
        state=status.state,
        sentence=redact_names(status.sentence),
        position=place.position if is_queued else 0,
        can_expedite=status.can_expedite,
        refusal=read_access.change_refusal(dataset) if status.can_expedite else "",
        wait_reason=redact_names(wait_reason),
    )
