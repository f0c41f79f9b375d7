"""The table of transitions: what may follow what."""

from __future__ import annotations

from itertools import product

import pytest

from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import CacheState, Dataset, DatasetStatus, Phase, Ref, UnderStoreState
from springline.persistence.model.transitions import INITIAL_STATE, TRANSITIONS, Event, GenerationState, next_state

OPEN, COMMITTED = Phase.OPEN, Phase.COMMITTED
WRITING, PRESENT, EVICTED, LOST = CacheState
NONE, COPYING, PERSISTED = UnderStoreState
OVER = (Phase.RETIRED, Phase.ABANDONED)


def reachable() -> set[GenerationState]:
    """Every state that some history of events leads to."""
    states, fresh = {INITIAL_STATE}, [INITIAL_STATE]
    while fresh:
        state = fresh.pop()
        for event in Event:
            following = TRANSITIONS.get((event, state))
            if following is not None and following not in states:
                states.add(following)
                fresh.append(following)
    return states


@pytest.mark.parametrize(
    ("event", "before", "then"),
    [
        (Event.CACHED, (OPEN, WRITING, NONE), (OPEN, PRESENT, NONE)),
        (Event.COMMITTED, (OPEN, PRESENT, NONE), (COMMITTED, PRESENT, NONE)),
        (Event.CLAIMED, (COMMITTED, PRESENT, NONE), (COMMITTED, PRESENT, COPYING)),
        (Event.COPIED, (COMMITTED, PRESENT, COPYING), (COMMITTED, PRESENT, PERSISTED)),
        (Event.RELEASED, (COMMITTED, PRESENT, COPYING), (COMMITTED, PRESENT, NONE)),
        (Event.EVICTED, (COMMITTED, PRESENT, PERSISTED), (COMMITTED, EVICTED, PERSISTED)),
        (Event.EVICTED, (COMMITTED, PRESENT, NONE), (COMMITTED, EVICTED, NONE)),
        (Event.RESTORED, (COMMITTED, EVICTED, PERSISTED), (COMMITTED, PRESENT, PERSISTED)),
        (Event.RESTORED, (COMMITTED, LOST, COPYING), (COMMITTED, PRESENT, COPYING)),
        (Event.LOST, (COMMITTED, PRESENT, COPYING), (COMMITTED, LOST, COPYING)),
        (Event.UNDER_STORE_LOST, (COMMITTED, PRESENT, PERSISTED), (COMMITTED, PRESENT, NONE)),
        (Event.UNDER_STORE_LOST, (COMMITTED, EVICTED, PERSISTED), (COMMITTED, LOST, NONE)),
        (Event.WRITTEN_TO_UNDER_STORE, (OPEN, WRITING, NONE), (OPEN, EVICTED, PERSISTED)),
        (Event.ABANDONED, (OPEN, PRESENT, COPYING), (Phase.ABANDONED, EVICTED, NONE)),
        (Event.RETIRED, (COMMITTED, PRESENT, PERSISTED), (Phase.RETIRED, EVICTED, NONE)),
    ],
)
def test_these_follow(
    event: Event, before: tuple[Phase, CacheState, UnderStoreState], then: tuple[Phase, CacheState, UnderStoreState]
) -> None:
    """The life of a generation, event by event."""
    assert next_state(event, GenerationState(*before)) == GenerationState(*then)


@pytest.mark.parametrize(
    ("event", "before", "reason"),
    [
        (Event.CLAIMED, (COMMITTED, PRESENT, COPYING), "two workers never send the same generation"),
        (Event.CLAIMED, (COMMITTED, PRESENT, PERSISTED), "what is persisted is not sent again"),
        (Event.COPIED, (COMMITTED, PRESENT, NONE), "a copy counts only for who claimed it"),
        (Event.COPIED, (COMMITTED, PRESENT, PERSISTED), "the winner stays the winner"),
        (Event.CLAIMED, (OPEN, WRITING, NONE), "half written bytes are not sent"),
        (Event.COMMITTED, (OPEN, WRITING, NONE), "half written bytes are not read"),
        (Event.COMMITTED, (OPEN, LOST, NONE), "what was lost before its commit is not committed"),
        (Event.COMMITTED, (OPEN, LOST, COPYING), "a copy under way is no copy"),
        (Event.COMMITTED, (COMMITTED, PRESENT, NONE), "a generation is committed once"),
        (Event.EVICTED, (OPEN, PRESENT, NONE), "what only its writer knows is not let go"),
        (Event.EVICTED, (COMMITTED, PRESENT, COPYING), "what is being sent is not let go"),
        (Event.EVICTED, (COMMITTED, LOST, NONE), "what is lost cannot be let go"),
        (Event.LOST, (COMMITTED, EVICTED, NONE), "what was let go on purpose is not lost"),
        (Event.RESTORED, (OPEN, WRITING, NONE), "nobody restores what is being written"),
        (Event.RESTORED, (COMMITTED, PRESENT, NONE), "nobody restores what is there"),
        (Event.RETIRED, (COMMITTED, PRESENT, COPYING), "what is being sent is not retired"),
        (Event.RETIRED, (OPEN, PRESENT, NONE), "what is being written is not retired"),
        (Event.ABANDONED, (COMMITTED, PRESENT, NONE), "what readers may see is not abandoned"),
        (Event.UNDER_STORE_LOST, (COMMITTED, PRESENT, COPYING), "a copy under way is not lost but released"),
    ],
)
def test_these_are_refused(event: Event, before: tuple[Phase, CacheState, UnderStoreState], reason: str) -> None:
    """Each refusal keeps a promise, and the error names event and state."""
    with pytest.raises(TransitionError, match=event.value):
        next_state(event, GenerationState(*before))


def test_nothing_happens_to_a_generation_whose_life_is_over() -> None:
    """Retired and abandoned are ends; no rule speaks of a state that nothing leads to."""
    assert {state for (_, state) in TRANSITIONS} <= reachable()
    assert not [event for (event, state) in TRANSITIONS if state.phase in OVER]
    ends = {state for state in reachable() if state.phase in OVER}
    assert ends == {GenerationState(phase, EVICTED, NONE) for phase in OVER}


def test_what_is_committed_and_has_no_bytes_anywhere_was_evicted_or_lost() -> None:
    """Committed bytes are in the cache, in the under-store, or were let go or lost by a recorded event."""
    for (event, before), then in TRANSITIONS.items():
        at_hand = then.cache is PRESENT or then.under is PERSISTED
        if then.phase is COMMITTED and not at_hand and (before.cache is PRESENT or before.under is PERSISTED):
            assert event in (Event.EVICTED, Event.LOST, Event.UNDER_STORE_LOST)


def test_every_reachable_state_reads_as_one_status() -> None:
    """What a person reads follows from the state, recomputable or not, and every status is reached."""
    read = {
        (state, recomputable): Dataset(Ref("a", 1), phase=state.phase, cache=state.cache, under=state.under).status(
            recomputable=recomputable
        )
        for state, recomputable in product(reachable(), (True, False))
    }
    assert set(read.values()) == set(DatasetStatus)
    for (state, recomputable), status in read.items():
        if status is DatasetStatus.IRRECOVERABLE:
            assert not recomputable and state.cache is not PRESENT and state.under is not PERSISTED
        if status is DatasetStatus.PERSISTED:
            assert state.under is PERSISTED
        if state.phase is not COMMITTED:
            assert status in (DatasetStatus.WRITING, DatasetStatus.RETIRED, DatasetStatus.ABANDONED)


@pytest.mark.parametrize(
    ("cache", "under", "status"),
    [
        (PRESENT, NONE, DatasetStatus.CACHED),
        (PRESENT, COPYING, DatasetStatus.PERSISTING),
        (PRESENT, PERSISTED, DatasetStatus.PERSISTED),
        (EVICTED, PERSISTED, DatasetStatus.EVICTED),
        (LOST, PERSISTED, DatasetStatus.PERSISTED),
        (EVICTED, NONE, DatasetStatus.EVICTED),
        (EVICTED, COPYING, DatasetStatus.EVICTED),
        (LOST, NONE, DatasetStatus.LOST),
        (LOST, COPYING, DatasetStatus.LOST),
    ],
)
def test_a_committed_and_recomputable_generation_reads_so(
    cache: CacheState, under: UnderStoreState, status: DatasetStatus
) -> None:
    """The words for what is in the cache and what is in the under-store."""
    assert Dataset(Ref("a", 1), cache=cache, under=under).status() is status
