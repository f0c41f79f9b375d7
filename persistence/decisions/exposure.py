"""The worst moment so far: what a loss of the cache would have cost, replayed from the log of changes.

Each change is one step that touches what depends on it, so that a log of a hundred thousand changes is quick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from springline.persistence.decisions.recovery import Risk, at_risk
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.dataset import Cache, Idempotence, Moment, Phase, Ref, Under
from springline.persistence.model.lineage import Lineage

# What a loss of the cache makes of a generation; the lesser counts, of a generation and of what it is made from.
_GONE, _UNPROVEN, _RECOMPUTABLE, _AT_HAND = range(4)


@dataclass(frozen=True)
class Exposure:
    """What a loss of the cache at one moment would have cost."""

    at: float
    risk: Risk


def worst_exposure(lineage: Lineage, moments: Sequence[Moment], costs: Costs, *, since: float = 0.0) -> Exposure | None:
    """The moment since `since` of most irrecoverable bytes, then unproven ones, then seconds of recomputing.

    `moments` are changes of state, oldest first; what none of them is of has been as it is now. Idempotence and costs
    are taken as they are known now. None: nothing has changed since.
    """
    replay = Replay(lineage, costs, {moment.ref for moment in moments})
    most: tuple[int, int, int, int] | None = None
    worst_at = 0
    for index, moment in enumerate(moments):
        replay.apply(moment)
        if moment.at >= since and (most is None or replay.cost > most):
            most, worst_at = replay.cost, index
    if most is None:
        return None
    then = _as_it_was(lineage, moments, worst_at)
    return Exposure(moments[worst_at].at, at_risk(then, costs))


class Replay:
    """The cost of a loss of the cache, kept true from one change of state to the next.

    `later`: the generations that begin with a change; the others are there from the start, as the lineage has them.
    """

    def __init__(self, lineage: Lineage, costs: Costs, later: Iterable[Ref] = ()) -> None:
        self._lineage = lineage
        self._costs = costs
        self._fate: dict[Ref, int] = {}  # of those that are there
        self._exposed: dict[Ref, int] = {}  # by the fate under which their bytes are counted
        self._rerun: dict[Ref, int] = {}  # nanoseconds of those that would be run again
        self._wanting: Counter[Ref] = Counter()  # how many of those that would be run again read it
        self._bytes = [0, 0, 0, 0]
        self._nanoseconds = 0
        self._state: dict[Ref, tuple[Phase, Cache, Under]] = {}
        begin = frozenset(later)
        for ref, dataset in lineage.datasets.items():
            if ref not in begin:
                self._state[ref] = (dataset.phase, dataset.cache, dataset.under)
        self._follow(list(self._state))

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Irrecoverable bytes, unproven bytes, nanoseconds of recomputing, and all bytes that are only in the cache."""
        return (self._bytes[_GONE], self._bytes[_UNPROVEN], self._nanoseconds, sum(self._bytes))

    def apply(self, moment: Moment) -> None:
        """One generation changes its state; what is not in the lineage is passed over."""
        if moment.ref in self._lineage.datasets:
            self._state[moment.ref] = (moment.phase, moment.cache, moment.under)
            self._follow([moment.ref])

    def _follow(self, changed: list[Ref]) -> None:
        """Let what depends on `changed` follow, downstream by what becomes of it, upstream by what is run again."""
        touched = dict.fromkeys(changed)
        while changed:
            ref = changed.pop()
            fate = self._fate_of(ref)
            if fate != self._fate.get(ref):
                self._fate[ref] = fate
                below = [each for each in self._lineage.dependents(ref) if each in self._state]
                touched |= dict.fromkeys(below)
                changed += below
        waiting = list(touched)
        for ref in waiting:
            self._count(ref)
        while waiting:
            waiting += self._settle_rerun(waiting.pop())

    def _fate_of(self, ref: Ref) -> int:
        phase, cache, under = self._state[ref]
        alive = phase in (Phase.OPEN, Phase.COMMITTED)
        # The cached bytes of what is open survive: its writer sees to it.
        if alive and (under is Under.PRESENT or (phase is Phase.OPEN and cache is Cache.PRESENT)):
            return _AT_HAND
        operation = self._lineage.operation_of(ref)
        if not alive or operation is None or not operation.repeatable:
            return _GONE
        own = _RECOMPUTABLE if operation.idempotence is Idempotence.PROVEN else _UNPROVEN
        return min([own, *(self._fate.get(source, _GONE) for source in self._lineage.datasets[ref].sources)])

    def _count(self, ref: Ref) -> None:
        """Count its bytes under its fate while the cache has the only ones."""
        if (before := self._exposed.pop(ref, None)) is not None:
            self._bytes[before] -= self._lineage.datasets[ref].bytes
        if self._is_exposed(ref):
            fate = self._exposed[ref] = self._fate[ref]
            self._bytes[fate] += self._lineage.datasets[ref].bytes

    def _is_exposed(self, ref: Ref) -> bool:
        phase, cache, under = self._state[ref]
        return phase is Phase.COMMITTED and cache is Cache.PRESENT and under is not Under.PRESENT

    def _settle_rerun(self, ref: Ref) -> list[Ref]:
        """Whether it would be run again; where that has changed, the sources, for which it may have changed too."""
        fate = self._fate.get(ref, _GONE)
        again = fate in (_UNPROVEN, _RECOMPUTABLE) and (self._is_exposed(ref) or self._wanting[ref] > 0)
        if again == (ref in self._rerun):
            return []
        if again:
            predicted = self._costs.rerun(ref, self._lineage)
            self._rerun[ref] = round(predicted.seconds * 1e9) if predicted else 0
            self._nanoseconds += self._rerun[ref]
        else:
            self._nanoseconds -= self._rerun.pop(ref)
        sources = [
            each for each in dict.fromkeys(self._lineage.datasets[ref].sources) if each in self._lineage.datasets
        ]
        for source in sources:
            self._wanting[source] += 1 if again else -1
        return sources


def _as_it_was(lineage: Lineage, moments: Sequence[Moment], last: int) -> Lineage:
    """The lineage after the change at index `last`."""
    states = {moment.ref: moment for moment in moments[: last + 1]}
    begun = states.keys() | (lineage.datasets.keys() - {moment.ref for moment in moments})
    datasets = {
        ref: replace(dataset, phase=states[ref].phase, cache=states[ref].cache, under=states[ref].under)
        if ref in states
        else dataset
        for ref, dataset in lineage.datasets.items()
        if ref in begun
    }
    return replace(lineage, datasets=datasets)
