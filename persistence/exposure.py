"""How much stood at risk over time, replayed from the log of changes: the worst moment, and what it would have cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from persistence.history import Costs
from persistence.lineage import Lineage
from persistence.model import Moment, Ref
from persistence.recovery import Risk, at_risk


@dataclass(frozen=True)
class Exposure:
    """What a loss of the cache at one moment would have cost."""

    at: float
    risk: Risk


def exposures(lineage: Lineage, moments: Sequence[Moment], costs: Costs) -> tuple[Exposure, ...]:
    """The risk after each change of state in `moments` (oldest first) of the generations in `lineage`.

    Idempotence and costs are taken as they are known now.
    """
    states: dict[Ref, Moment] = {}
    found = []
    for moment in moments:
        if moment.ref not in lineage.datasets:
            continue
        states[moment.ref] = moment
        found.append(Exposure(moment.at, at_risk(_as_it_was(lineage, states), costs)))
    return tuple(found)


def worst(exposed: Iterable[Exposure]) -> Exposure | None:
    """The moment of most irrecoverable bytes, then of most seconds of recomputing, then of most bytes."""
    return max(
        exposed,
        key=lambda e: (e.risk.irrecoverable_bytes, e.risk.recompute_seconds, e.risk.bytes),
        default=None,
    )


def byte_seconds(exposed: Sequence[Exposure]) -> float:
    """Bytes at risk, summed over time."""
    return sum(a.risk.bytes * (b.at - a.at) for a, b in pairwise(exposed))


def _as_it_was(lineage: Lineage, states: Mapping[Ref, Moment]) -> Lineage:
    datasets = {
        ref: replace(lineage.datasets[ref], phase=moment.phase, cache=moment.cache, under=moment.under)
        for ref, moment in states.items()
    }
    return replace(lineage, datasets=datasets)
