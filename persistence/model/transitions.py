"""The table of transitions: every change of state that a generation may go through, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import Cache, Phase, Under


@dataclass(frozen=True, slots=True)
class State:
    """Phase, cache and under-store of one generation."""

    phase: Phase
    cache: Cache
    under: Under

    def __str__(self) -> str:
        return f"{self.phase}, cache {self.cache}, under-store {self.under}"


class Event(StrEnum):
    """What happens to a generation."""

    CACHED = "cached"  # its bytes are whole in the cache
    WRITTEN_DOWN = "written_down"  # its bytes are whole in the under-store, too large for the cache
    CLAIMED = "claimed"  # a transfer to the under-store begins
    COPIED = "copied"  # a verified copy is in the under-store
    RELEASED = "released"  # a transfer ended without a copy
    COMMITTED = "committed"  # readers may see it
    EVICTED = "evicted"  # let go from the cache
    LOST = "lost"  # its cached bytes are found missing or damaged
    UNDER_LOST = "under_lost"  # its copy in the under-store is found missing or damaged
    RESTORED = "restored"  # back in the cache: fetched or recomputed
    ABANDONED = "abandoned"  # its writer failed
    RETIRED = "retired"  # superseded and no longer read


START = State(Phase.OPEN, Cache.WRITING, Under.NONE)


def _table() -> dict[tuple[Event, State], State]:
    table: dict[tuple[Event, State], State] = {}
    for phase, cache, under in product(Phase, Cache, Under):
        state = State(phase, cache, under)
        alive = phase in (Phase.OPEN, Phase.COMMITTED)
        committed = phase is Phase.COMMITTED
        if not alive or (committed and cache is Cache.WRITING):
            continue
        if phase is Phase.OPEN and cache is Cache.EVICTED and under is not Under.PRESENT:
            continue  # an open generation leaves the cache only for a copy that stays: it was too large
        if phase is Phase.OPEN and cache is Cache.WRITING:
            if under is Under.NONE:
                table[Event.CACHED, state] = State(phase, Cache.PRESENT, under)
                table[Event.WRITTEN_DOWN, state] = State(phase, Cache.EVICTED, Under.PRESENT)
                table[Event.ABANDONED, state] = State(Phase.ABANDONED, Cache.EVICTED, Under.NONE)
            continue
        if under is Under.NONE:
            table[Event.CLAIMED, state] = State(phase, cache, Under.COPYING)
        if under is Under.COPYING:
            table[Event.COPIED, state] = State(phase, cache, Under.PRESENT)
            table[Event.RELEASED, state] = State(phase, cache, Under.NONE)
        if cache is Cache.PRESENT:
            if under is Under.PRESENT or (committed and under is Under.NONE):
                table[Event.EVICTED, state] = State(phase, Cache.EVICTED, under)
            table[Event.LOST, state] = State(phase, Cache.LOST, under)
        if phase is Phase.OPEN:
            table[Event.ABANDONED, state] = State(Phase.ABANDONED, Cache.EVICTED, Under.NONE)
            if cache is Cache.PRESENT or under is Under.PRESENT:
                table[Event.COMMITTED, state] = State(Phase.COMMITTED, cache, under)
        if committed:
            if under is Under.PRESENT:
                gone = Cache.LOST if cache is Cache.EVICTED else cache
                table[Event.UNDER_LOST, state] = State(phase, gone, Under.NONE)
            if cache in (Cache.EVICTED, Cache.LOST):
                table[Event.RESTORED, state] = State(phase, Cache.PRESENT, under)
            if under is not Under.COPYING:
                table[Event.RETIRED, state] = State(Phase.RETIRED, Cache.EVICTED, Under.NONE)
    return table


TRANSITIONS = _table()


def after(event: Event, state: State) -> State:
    """The state that follows; raises `TransitionError` where the table has none."""
    try:
        return TRANSITIONS[event, state]
    except KeyError:
        raise TransitionError(f"{event.value!r} is not allowed in the state ({state})") from None
