"""Why a generation is not persisted, or that it is: one state and one sentence for each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from springline.persistence.model.dataset import Dataset, Phase, Ref, Strategy, TransferMethod, UnderStoreState
from springline.persistence.text.formatting import (
    format_bytes,
    format_count,
    format_list,
    format_ordinal,
    format_seconds,
)


class PersistState(StrEnum):
    """What keeps a generation from being persisted; `PERSISTED`: nothing does."""

    PERSISTED = "persisted"
    COPYING = "copying"
    STALLED = "stalled"  # its worker does not renew its lease
    QUEUED = "queued"
    RETRYING = "retrying"  # paused after a failed attempt
    NOT_REQUESTED = "not requested"
    UNCOMMITTED = "uncommitted"
    IRRECOVERABLE = "irrecoverable"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What the queue knows of one generation: its worker, the progress of its transfer, its pause after a failure.

    `is_expired`: the worker's lease ran out. `retry_in`: seconds until it may be claimed; 0: now. `seconds`: since the
    claim.
    """

    owner: str = ""
    is_expired: bool = False
    retry_in: float = 0.0
    sent_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The planned place of a generation in the queue: position, seconds until it is persisted, what it waits for.

    `position` counts from 1; 0: behind those that were counted.
    """

    position: int = 0
    completes_in: float | None = None
    waits_for: Sequence[Ref] = ()


@dataclass(frozen=True, slots=True)
class PersistStatus:
    """A state, the sentence that explains it, and whether a user can move the generation to the head of the queue."""

    state: PersistState
    sentence: str
    can_expedite: bool = False


def persist_status(
    dataset: Dataset, claim: ClaimState, place: QueuePlace, *, obstacles: Sequence[str] = (), away: str = ""
) -> PersistStatus:
    """Explain why `dataset` is not persisted, as a sentence without its name.

    `obstacles`: why it cannot be recomputed. `away`: why the under-store does not respond; empty if it does.
    """
    if dataset.phase in (Phase.RETIRED, Phase.ABANDONED):
        reason = "a newer generation replaced it" if dataset.phase is Phase.RETIRED else "its writer failed"
        return PersistStatus(PersistState.REMOVED, f"it is {dataset.phase.value}: {reason}")
    if dataset.persisted:
        copy = f"the catalog has a copy of it, but {away}" if away else "a verified copy is in the under-store"
        return PersistStatus(PersistState.PERSISTED, copy)
    if dataset.under is UnderStoreState.COPYING:
        return _status_of_transfer(dataset, claim)
    if dataset.phase is Phase.OPEN:
        return PersistStatus(PersistState.UNCOMMITTED, f"it is not committed yet; {_after_commit(dataset)}")
    if not dataset.in_cache and obstacles:
        reason = f"its bytes are {dataset.cache.value}, and nothing recomputes them: {'; '.join(obstacles)}"
        return PersistStatus(PersistState.IRRECOVERABLE, reason)
    if not dataset.persist_requested:
        return PersistStatus(PersistState.NOT_REQUESTED, _why_not_requested(dataset), can_expedite=True)
    if claim.retry_in > 0:
        failed = f"{format_count(dataset.attempts, 'attempt')} failed, the last one with: {dataset.error}"
        return PersistStatus(
            PersistState.RETRYING,
            f"{failed}; the next one starts in {format_seconds(claim.retry_in)}",
            can_expedite=True,
        )
    can_expedite = place.position != 1 and not dataset.expedited
    return PersistStatus(PersistState.QUEUED, _describe_place(dataset, place, away), can_expedite)


def _status_of_transfer(dataset: Dataset, claim: ClaimState) -> PersistStatus:
    if claim.is_expired:
        sentence = f"{claim.owner}, which claimed it, does not renew its lease; another persister takes it over"
        return PersistStatus(PersistState.STALLED, sentence)
    if dataset.method is TransferMethod.OPERATION:
        progress = f"is running its operation next to the under-store, since {format_seconds(claim.seconds)}"
    else:
        sent = format_bytes(min(claim.sent_bytes, dataset.bytes))
        progress = f"is sending it since {format_seconds(claim.seconds)}: {sent} of {format_bytes(dataset.bytes)}"
    return PersistStatus(PersistState.COPYING, f"{claim.owner} {progress}")


def _after_commit(dataset: Dataset) -> str:
    return "it is queued when it is committed" if dataset.persist_requested else _why_not_requested(dataset)


def _why_not_requested(dataset: Dataset) -> str:
    if dataset.error:
        return f"persisting it was abandoned: {dataset.error}"
    if dataset.strategy is Strategy.CACHE_ONLY:
        return "its strategy is cache_only, so nothing persists it"
    return "its writer declared it temporary, so nothing persists it"


def _describe_place(dataset: Dataset, place: QueuePlace, away: str) -> str:
    if place.waits_for:
        sentence = f"it is in the queue, and waits for {format_list(place.waits_for)}"
    elif place.position:
        head = ", moved to the head" if dataset.expedited else ""
        sentence = f"it is the {format_ordinal(place.position)} in the queue{head}"
        if place.completes_in is not None and not away:
            sentence += f", about {format_seconds(place.completes_in)} of transfers until it is persisted"
    else:
        sentence = "it is in the queue, far from the head"
    if away:
        sentence += f"; nothing is persisted now: {away}"
    return f"{sentence}; its last attempt failed: {dataset.error}" if dataset.error else sentence
