"""The transition table: all changes of state that a generation may make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import CacheState, Phase, UnderStoreState


@dataclass(frozen=True, slots=True)
class GenerationState:
    """Phase, cache and under-store state of one generation."""

    phase: Phase
    cache: CacheState
    under: UnderStoreState

    def __str__(self) -> str:
        return f"{self.phase}, cache {self.cache}, under-store {self.under}"


class Event(StrEnum):
    """An event that changes the state of a generation."""

    CACHED = "cached"  # its bytes are complete in the cache
    WRITTEN_TO_UNDER_STORE = (
        "written_to_under_store"  # its bytes are complete in the under-store, too large for the cache
    )
    CLAIMED = "claimed"  # a transfer to the under-store begins
    COPIED = "copied"  # a verified copy is in the under-store
    RELEASED = "released"  # a transfer ended without a copy
    COMMITTED = "committed"  # readers may see it
    EVICTED = "evicted"  # removed from the cache on purpose
    LOST = "lost"  # its cached bytes are missing or damaged
    UNDER_STORE_LOST = "under_store_lost"  # its copy in the under-store is missing or damaged
    RESTORED = "restored"  # back in the cache: fetched or recomputed
    ABANDONED = "abandoned"  # its writer failed
    RETIRED = "retired"  # superseded and no longer read


INITIAL_STATE = GenerationState(Phase.OPEN, CacheState.WRITING, UnderStoreState.NONE)


def _build_table() -> dict[tuple[Event, GenerationState], GenerationState]:
    table: dict[tuple[Event, GenerationState], GenerationState] = {}
    for phase, cache, under in product(Phase, CacheState, UnderStoreState):
        state = GenerationState(phase, cache, under)
        alive = phase in (Phase.OPEN, Phase.COMMITTED)
        committed = phase is Phase.COMMITTED
        if not alive or (committed and cache is CacheState.WRITING):
            continue
        if phase is Phase.OPEN and cache is CacheState.EVICTED and under is not UnderStoreState.PRESENT:
            continue  # an open generation is evicted only if a copy remains: it was too large
        if phase is Phase.OPEN and cache is CacheState.WRITING:
            if under is UnderStoreState.NONE:
                table[Event.CACHED, state] = GenerationState(phase, CacheState.PRESENT, under)
                table[Event.WRITTEN_TO_UNDER_STORE, state] = GenerationState(
                    phase, CacheState.EVICTED, UnderStoreState.PRESENT
                )
                table[Event.ABANDONED, state] = GenerationState(
                    Phase.ABANDONED, CacheState.EVICTED, UnderStoreState.NONE
                )
            continue
        if under is UnderStoreState.NONE:
            table[Event.CLAIMED, state] = GenerationState(phase, cache, UnderStoreState.COPYING)
        if under is UnderStoreState.COPYING:
            table[Event.COPIED, state] = GenerationState(phase, cache, UnderStoreState.PRESENT)
            table[Event.RELEASED, state] = GenerationState(phase, cache, UnderStoreState.NONE)
        if cache is CacheState.PRESENT:
            if under is UnderStoreState.PRESENT or (committed and under is UnderStoreState.NONE):
                table[Event.EVICTED, state] = GenerationState(phase, CacheState.EVICTED, under)
            table[Event.LOST, state] = GenerationState(phase, CacheState.LOST, under)
        if phase is Phase.OPEN:
            table[Event.ABANDONED, state] = GenerationState(Phase.ABANDONED, CacheState.EVICTED, UnderStoreState.NONE)
            if cache is CacheState.PRESENT or under is UnderStoreState.PRESENT:
                table[Event.COMMITTED, state] = GenerationState(Phase.COMMITTED, cache, under)
        if committed:
            if under is UnderStoreState.PRESENT:
                cache_after = CacheState.LOST if cache is CacheState.EVICTED else cache
                table[Event.UNDER_STORE_LOST, state] = GenerationState(phase, cache_after, UnderStoreState.NONE)
            if cache in (CacheState.EVICTED, CacheState.LOST):
                table[Event.RESTORED, state] = GenerationState(phase, CacheState.PRESENT, under)
            if under is not UnderStoreState.COPYING:
                table[Event.RETIRED, state] = GenerationState(Phase.RETIRED, CacheState.EVICTED, UnderStoreState.NONE)
    return table


TRANSITIONS = _build_table()


def next_state(event: Event, state: GenerationState) -> GenerationState:
    """Return the state after `event`; raises `TransitionError` if the table has none."""
    try:
        return TRANSITIONS[event, state]
    except KeyError:
        raise TransitionError(f"{event.value!r} is not allowed in the state ({state})") from None
