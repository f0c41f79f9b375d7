"""Eviction: which generations may leave the cache, and which must stay so that nothing is put at risk.

First what is persisted or unwanted, then alternate generations of a recomputable chain, so that each one
evicted is a single repeatable step from sources that stayed. Source: the paper, "Replacement".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp2

from springline.persistence.model.dataset import Dataset, Phase, Ref, Strategy, Under
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_bytes, say_list, say_seconds

_HALF_LIFE = 3600.0  # seconds in which a read comes to count half, for lrfu


@dataclass(frozen=True)
class Victim:
    """A generation that leaves the cache, by which rule, and why it may."""

    ref: Ref
    bytes: int
    rule: str  # "persisted" | "unwanted" | "alternate"
    words: str


@dataclass(frozen=True)
class EvictionPlan:
    """What leaves the cache: bytes freed, bytes still missing (`short`), and why what was looked at has to stay.

    `away`: why the under-store's copies count for nothing; empty if they count.
    """

    victims: tuple[Victim, ...]
    freed: int
    short: int
    kept: Mapping[Ref, str]
    away: str = ""


def plan_eviction(
    lineage: Lineage, needed: int, *, protected: frozenset[Ref], replacement: str, now: float, away: str = ""
) -> EvictionPlan:
    """Choose what leaves the cache to free `needed` bytes; `protected` is being read or written now.

    While the under-store is `away` (why, in words) its copies count for nothing: what has one stays, and so does what
    would be made again from one.

    Persisted and unwanted ones go first, in the order of `replacement` (lru or lrfu), then wanted ones
    that can be made again. Unpersisted ones go only if they are recomputable, their operation has been seen
    to repeat its digest, every source stays at hand, and nothing evicted depends on them. The exception is
    what was written with the strategy cache_only: it goes last, and possibly for good, as that strategy says.
    """
    believed: dict[Ref, str] = {}
    if away:
        below = [d for d in lineage.datasets.values() if d.persisted]
        lineage = lineage.changed(*(replace(d, under=Under.NONE) for d in below))
        believed = dict.fromkeys((d.ref for d in below), f"its copy may not be there: {away}")
    draft = _Draft(lineage, protected, believed)
    for dataset, rule in _in_turn(lineage, replacement, now):
        if draft.freed >= needed:
            break
        draft.consider(dataset, rule, now)
    return EvictionPlan(tuple(draft.victims), draft.freed, max(needed - draft.freed, 0), draft.kept, away)


def _in_turn(lineage: Lineage, replacement: str, now: float) -> Iterator[tuple[Dataset, str]]:
    """Everything in the cache with the rule it might go by, in the order in which it is looked at."""
    cached = [d for d in lineage.datasets.values() if d.in_cache and d.phase is Phase.COMMITTED]
    cached.sort(key=lambda d: (_usefulness(d, replacement, now), d.ref))
    yield from ((d, "persisted" if d.persisted else "unwanted") for d in cached if d.persisted or not d.wanted)
    yield from ((d, "alternate") for d in cached if not d.persisted and d.wanted)
    yield from ((d, "cache_only") for d in cached if not d.persisted and d.strategy is Strategy.CACHE_ONLY)


def _usefulness(dataset: Dataset, replacement: str, now: float) -> float:
    """The lower, the sooner it goes."""
    if replacement == "lru":
        return dataset.last_used_at
    if replacement == "lrfu":
        return (1 + dataset.reads) * exp2(-max(now - dataset.last_used_at, 0.0) / _HALF_LIFE)
    raise ValueError(f"replacement {replacement!r} is neither lru nor lrfu")


@dataclass
class _Draft:
    """A plan while it is made."""

    lineage: Lineage
    protected: frozenset[Ref]
    believed: Mapping[Ref, str]  # why the copies of these are not relied on
    victims: list[Victim] = field(default_factory=list)
    gone: set[Ref] = field(default_factory=set)  # unpersisted victims
    freed: int = 0
    kept: dict[Ref, str] = field(default_factory=dict)

    def consider(self, dataset: Dataset, rule: str, now: float) -> None:
        """Make `dataset` a victim or note why it stays."""
        ref = dataset.ref
        if ref in self.gone:
            return
        if reason := self._must_stay(dataset, rule):
            self.kept[ref] = reason
            return
        self.kept.pop(ref, None)
        if not dataset.persisted:
            self.gone.add(ref)
        self.freed += dataset.bytes
        idle = f"{say_bytes(dataset.bytes)}, last used {say_seconds(max(now - dataset.last_used_at, 0.0))} ago"
        self.victims.append(
            Victim(ref, dataset.bytes, "unwanted" if rule == "cache_only" else rule, f"{idle}; {self._may_go(dataset)}")
        )

    def _must_stay(self, dataset: Dataset, rule: str) -> str:
        if dataset.pinned:
            return "it is pinned"
        if dataset.ref in self.protected:
            return "it is being read or written"
        if dataset.ref in self.believed:
            return self.believed[dataset.ref]
        if rule == "persisted":
            return ""
        leaning = [d for d in self.lineage.dependents(dataset.ref) if self._leans_on_sources(d)]
        if rule == "cache_only":  # its own kind cannot hold it back
            leaning = [d for d in leaning if self.lineage.datasets[d].strategy is not Strategy.CACHE_ONLY]
        if leaning:
            return f"{say_list(leaning)} left the cache unpersisted and would be made again from it"
        if rule == "cache_only":
            return ""
        if causes := self.lineage.why_not_recomputable(dataset.ref):
            return f"it is not persisted and could not be made again: {'; '.join(causes)}"
        operation = self.lineage.operation_of(dataset.ref)
        if operation is None or operation.repeats < 1:
            name = operation.name if operation else "its operation"
            return f"it is not persisted, and {name} has not been seen to repeat its digest yet"
        if away := [s for s in dataset.sources if not self._stays(s)]:
            return f"it is not persisted, and would be made again from {say_list(away)}, not at hand either"
        return ""

    def _may_go(self, dataset: Dataset) -> str:
        if dataset.persisted:
            return "a verified copy is in the under-store"
        operation = self.lineage.operation_of(dataset.ref)
        if operation and operation.repeats and self.lineage.recomputable(dataset.ref):
            unwanted = "" if dataset.wanted else "nobody wants it persisted; "
            inputs = f" from {say_list(dataset.sources)}" if dataset.sources else ""
            return f"{unwanted}{operation.name} makes it again in one step{inputs}"
        return "its strategy is cache_only, which promises nothing: it may be lost for good"

    def _stays(self, source: Ref) -> bool:
        dataset = self.lineage.datasets.get(source)
        return dataset is not None and dataset.available and source not in self.gone

    def _leans_on_sources(self, ref: Ref) -> bool:
        """An unpersisted generation that has left the cache, or leaves it now, and can be made again."""
        dataset = self.lineage.datasets[ref]
        if dataset.phase is not Phase.COMMITTED or dataset.persisted:
            return False
        if dataset.in_cache and ref not in self.gone:
            return False
        return not self.lineage.why_not_repeatable(ref)
