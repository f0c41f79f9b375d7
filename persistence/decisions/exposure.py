"""The worst exposure so far: what a loss of the cache would have cost, replayed from the log of changes.

Each change updates only what depends on it, so that a log of a hundred thousand changes is quick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from springline.persistence.decisions.recovery import Risk, assess_risk
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Idempotence, Phase, Ref, StateChange, UnderStoreState
from springline.persistence.model.lineage import Lineage

# Fate of a generation after a loss of the cache; it is the minimum of its own and of those of its sources.
_IRRECOVERABLE, _UNPROVEN, _RECOMPUTABLE, _AVAILABLE = range(4)


@dataclass(frozen=True)
class Exposure:
    """The cost of a loss of the cache at one time."""

    timestamp: float
    risk: Risk


def find_worst_exposure(
    lineage: Lineage, changes: Sequence[StateChange], costs: CostModel, *, since: float = 0.0
) -> Exposure | None:
    """Return the time since `since` with most irrecoverable bytes, then unproven bytes, then recompute seconds.

    `changes` are changes of state, oldest first; generations without a change have their current state throughout.
    Idempotence and costs are taken as known now. Returns None if nothing has changed since.
    """
    replay = LossReplay(lineage, costs, {change.ref for change in changes})
    worst_cost: tuple[int, int, int, int] | None = None
    worst_index = 0
    for index, moment in enumerate(changes):
        replay.apply(moment)
        if moment.timestamp >= since and (worst_cost is None or replay.cost > worst_cost):
            worst_cost, worst_index = replay.cost, index
    if worst_cost is None:
        return None
    worst_lineage = _lineage_after(lineage, changes, worst_index)
    return Exposure(changes[worst_index].timestamp, assess_risk(worst_lineage, costs))


class LossReplay:
    """The cost of a loss of the cache, updated incrementally with each change of state.

    `created_later`: the generations that begin with a change; the others exist from the start, with their state in the
    lineage.
    """

    def __init__(self, lineage: Lineage, costs: CostModel, created_later: Iterable[Ref] = ()) -> None:
        self._lineage = lineage
        self._costs = costs
        self._fate: dict[Ref, int] = {}  # of the generations that exist
        self._exposed: dict[Ref, int] = {}  # the fate under which their bytes are counted
        self._rerun: dict[Ref, int] = {}  # nanoseconds of the generations to be re-run
        self._rerun_readers: Counter[Ref] = Counter()  # number of re-run generations that read it
        self._bytes = [0, 0, 0, 0]
        self._nanoseconds = 0
        self._state: dict[Ref, tuple[Phase, CacheState, UnderStoreState]] = {}
        later_refs = frozenset(created_later)
        for ref, dataset in lineage.datasets.items():
            if ref not in later_refs:
                self._state[ref] = (dataset.phase, dataset.cache, dataset.under)
        self._propagate(list(self._state))

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Irrecoverable bytes, unproven bytes, nanoseconds of recomputing, and all bytes that are only in the cache."""
        return (self._bytes[_IRRECOVERABLE], self._bytes[_UNPROVEN], self._nanoseconds, sum(self._bytes))

    def apply(self, change: StateChange) -> None:
        """Apply one change of state; generations outside of the lineage are ignored."""
        if change.ref in self._lineage.datasets:
            self._state[change.ref] = (change.phase, change.cache, change.under)
            self._propagate([change.ref])

    def _propagate(self, changed: list[Ref]) -> None:
        """Update what depends on `changed`: fates downstream, re-runs upstream."""
        touched = dict.fromkeys(changed)
        while changed:
            ref = changed.pop()
            fate = self._fate_of(ref)
            if fate != self._fate.get(ref):
                self._fate[ref] = fate
                below = [each for each in self._lineage.dependents(ref) if each in self._state]
                touched |= dict.fromkeys(below)
                changed += below
        pending = list(touched)
        for ref in pending:
            self._count_bytes(ref)
        while pending:
            pending += self._update_rerun(pending.pop())

    def _fate_of(self, ref: Ref) -> int:
        phase, cache, under = self._state[ref]
        alive = phase in (Phase.OPEN, Phase.COMMITTED)
        # The cached bytes of an open generation count as safe: its writer handles a loss.
        if alive and (under is UnderStoreState.PRESENT or (phase is Phase.OPEN and cache is CacheState.PRESENT)):
            return _AVAILABLE
        operation = self._lineage.operation_of(ref)
        if not alive or operation is None or not operation.repeatable:
            return _IRRECOVERABLE
        own = _RECOMPUTABLE if operation.idempotence is Idempotence.PROVEN else _UNPROVEN
        return min([own, *(self._fate.get(source, _IRRECOVERABLE) for source in self._lineage.datasets[ref].sources)])

    def _count_bytes(self, ref: Ref) -> None:
        """Count the bytes of `ref` under its fate if they are only in the cache."""
        if (previous_fate := self._exposed.pop(ref, None)) is not None:
            self._bytes[previous_fate] -= self._lineage.datasets[ref].bytes
        if self._is_exposed(ref):
            fate = self._exposed[ref] = self._fate[ref]
            self._bytes[fate] += self._lineage.datasets[ref].bytes

    def _is_exposed(self, ref: Ref) -> bool:
        phase, cache, under = self._state[ref]
        return phase is Phase.COMMITTED and cache is CacheState.PRESENT and under is not UnderStoreState.PRESENT

    def _update_rerun(self, ref: Ref) -> list[Ref]:
        """Update whether it would be re-run; if that changed, return its sources, which have to be updated too."""
        fate = self._fate.get(ref, _IRRECOVERABLE)
        would_rerun = fate in (_UNPROVEN, _RECOMPUTABLE) and (self._is_exposed(ref) or self._rerun_readers[ref] > 0)
        if would_rerun == (ref in self._rerun):
            return []
        if would_rerun:
            predicted = self._costs.predict_rerun(ref, self._lineage)
            self._rerun[ref] = round(predicted.seconds * 1e9) if predicted else 0
            self._nanoseconds += self._rerun[ref]
        else:
            self._nanoseconds -= self._rerun.pop(ref)
        sources = [
            each for each in dict.fromkeys(self._lineage.datasets[ref].sources) if each in self._lineage.datasets
        ]
        for source in sources:
            self._rerun_readers[source] += 1 if would_rerun else -1
        return sources


def _lineage_after(lineage: Lineage, changes: Sequence[StateChange], last: int) -> Lineage:
    """Return the lineage after the change at index `last`."""
    states = {change.ref: change for change in changes[: last + 1]}
    created = states.keys() | (lineage.datasets.keys() - {moment.ref for moment in changes})
    datasets = {
        ref: replace(dataset, phase=states[ref].phase, cache=states[ref].cache, under=states[ref].under)
        if ref in states
        else dataset
        for ref, dataset in lineage.datasets.items()
        if ref in created
    }
    return replace(lineage, datasets=datasets)
