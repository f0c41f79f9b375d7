"""Why a generation is not persisted, in one sentence for each case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from springline.persistence.decisions.persist_status import ClaimState, PersistState, QueuePlace, persist_status
from springline.persistence.model.dataset import (
    CacheState,
    Dataset,
    Phase,
    Ref,
    Strategy,
    TransferMethod,
    UnderStoreState,
)

WAITING = Dataset(Ref("a", 1), bytes=4_000_000)
SENT = replace(WAITING, under=UnderStoreState.COPYING, method=TransferMethod.DATA)
CLAIM = ClaimState("one", sent_bytes=1_000_000, seconds=3.0)


@pytest.mark.parametrize(
    ("dataset", "claim", "place", "state", "sentence"),
    [
        (WAITING, ClaimState(), QueuePlace(3, 20.0), "queued",
         "it is the 3rd in the queue, about 20 s of transfers until it is persisted"),
        (WAITING, ClaimState(), QueuePlace(22, None), "queued", "it is the 22nd in the queue"),
        (WAITING, ClaimState(), QueuePlace(), "queued", "it is in the queue, far from the head"),
        (WAITING, ClaimState(), QueuePlace(1, 2.0, [Ref("b", 2)]), "queued", "it is in the queue, and waits for b@2"),
        (replace(WAITING, expedited=True, error="full"), ClaimState(), QueuePlace(1), "queued",
         "it is the 1st in the queue, moved to the head; its last attempt failed: full"),
        (replace(WAITING, error="full", attempts=2), ClaimState(retry_in=20.0), QueuePlace(), "retrying",
         "2 attempts failed, the last one with: full; the next one starts in 20 s"),
        (SENT, CLAIM, QueuePlace(), "copying", "one is sending it since 3 s: 1 MB of 4 MB"),
        (replace(SENT, method=TransferMethod.OPERATION), CLAIM, QueuePlace(), "copying",
         "one is running its operation next to the under-store, since 3 s"),
        (SENT, replace(CLAIM, is_expired=True), QueuePlace(), "stalled",
         "one, which claimed it, does not renew its lease; another persister takes it over"),
        (replace(WAITING, persist_requested=False, strategy=Strategy.CACHE_ONLY), ClaimState(), QueuePlace(),
         "not requested", "its strategy is cache_only, so nothing persists it"),
        (replace(WAITING, persist_requested=False), ClaimState(), QueuePlace(), "not requested",
         "its writer declared it temporary, so nothing persists it"),
        (replace(WAITING, persist_requested=False, error="b@1 is lost"), ClaimState(), QueuePlace(), "not requested",
         "persisting it was abandoned: b@1 is lost"),
        (replace(WAITING, phase=Phase.OPEN), ClaimState(), QueuePlace(), "uncommitted",
         "it is not committed yet; it is queued when it is committed"),
        (replace(WAITING, phase=Phase.OPEN, persist_requested=False, strategy=Strategy.CACHE_ONLY), ClaimState(),
         QueuePlace(), "uncommitted", "it is not committed yet; its strategy is cache_only, so nothing persists it"),
        (replace(WAITING, phase=Phase.ABANDONED), ClaimState(), QueuePlace(), "removed",
         "it is abandoned: its writer failed"),
        (replace(WAITING, phase=Phase.RETIRED, under=UnderStoreState.PRESENT), ClaimState(), QueuePlace(), "removed",
         "it is retired: a newer generation replaced it"),
        (replace(WAITING, under=UnderStoreState.PRESENT), ClaimState(), QueuePlace(), "persisted",
         "a verified copy is in the under-store"),
    ],
)  # fmt: skip
def test_each_case_has_its_sentence(
    dataset: Dataset, claim: ClaimState, place: QueuePlace, state: str, sentence: str
) -> None:
    """Without the name of the dataset, which stands beside it."""
    status = persist_status(dataset, claim, place)
    assert (status.state.value, status.sentence) == (state, sentence)


def test_what_is_lost_for_good_is_not_said_to_be_in_the_queue() -> None:
    """Until a persister removes it there; what can be recomputed is sent as its operation."""
    lost = replace(WAITING, cache=CacheState.LOST)
    status = persist_status(lost, ClaimState(), QueuePlace(1), obstacles=["no operation is recorded for a@1"])
    assert status.state is PersistState.IRRECOVERABLE and not status.can_expedite
    assert status.sentence == "its bytes are lost, and nothing recomputes them: no operation is recorded for a@1"
    assert persist_status(lost, ClaimState(), QueuePlace(1)).state is PersistState.QUEUED


def test_an_under_store_that_is_away_keeps_everything_from_being_persisted() -> None:
    """So no time is promised, and a copy there is not said to be verified."""
    away = "the under-store does not answer"
    queued = persist_status(WAITING, ClaimState(), QueuePlace(3, 20.0), away=away)
    assert queued.sentence == f"it is the 3rd in the queue; nothing is persisted now: {away}"
    below = persist_status(replace(WAITING, under=UnderStoreState.PRESENT), ClaimState(), QueuePlace(), away=away)
    assert below.sentence == f"the catalog has a copy of it, but {away}"


@pytest.mark.parametrize(
    ("dataset", "claim", "position", "expected"),
    [
        (WAITING, ClaimState(), 1, False),
        (WAITING, ClaimState(), 2, True),
        (WAITING, ClaimState(), 0, True),
        (replace(WAITING, expedited=True), ClaimState(), 2, False),
        (replace(WAITING, expedited=True), ClaimState(retry_in=9.0), 0, True),
        (replace(WAITING, persist_requested=False), ClaimState(), 0, True),
        (SENT, CLAIM, 0, False),
        (replace(WAITING, phase=Phase.OPEN), ClaimState(), 0, False),
    ],
)
def test_only_what_is_not_at_the_head_can_be_moved_there(
    dataset: Dataset, claim: ClaimState, position: int, expected: bool
) -> None:
    """A failed one too: the pause after its failure ends with that."""
    assert persist_status(dataset, claim, QueuePlace(position)).can_expedite is expected
