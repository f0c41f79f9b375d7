"""Eviction: which generations may leave the cache, and which must stay so that no data is put at risk.

First the persisted or unwanted ones, then alternate generations of a recomputable chain, so that each
evicted one is a single repeatable step from sources that stay. Source: the paper, "Replacement".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp2

from springline.persistence.model.dataset import Dataset, Phase, Ref, Strategy, UnderStoreState
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_bytes, format_list, format_seconds

_HALF_LIFE = 3600.0  # half-life (s) of the weight of a read, for lrfu


@dataclass(frozen=True)
class Victim:
    """A generation to evict, by which rule, and why it may be evicted."""

    ref: Ref
    bytes: int
    rule: str  # "persisted" | "not_requested" | "alternate"
    reason: str


@dataclass(frozen=True)
class EvictionPlan:
    """The generations to evict, the bytes that frees, the bytes still missing, and why the others have to stay.

    `unavailable_reason`: why copies in the under-store do not count; empty if they do.
    """

    victims: tuple[Victim, ...]
    freed_bytes: int
    missing_bytes: int
    retention_reasons: Mapping[Ref, str]
    unavailable_reason: str = ""


def plan_eviction(
    lineage: Lineage,
    needed_bytes: int,
    *,
    protected: frozenset[Ref],
    replacement: str,
    now: float,
    unavailable_reason: str = "",
) -> EvictionPlan:
    """Choose generations to evict to free `needed_bytes` bytes; `protected` ones are being read or written now.

    While the under-store is unavailable (`unavailable_reason` says why) its copies do not count: generations with such
    a copy stay, and so do those that would be recomputed from one.

    Persisted and unwanted ones are evicted first, in the order of `replacement` (lru or lrfu), then wanted ones
    that are recomputable. Unpersisted ones are evicted only if they are recomputable, their operation is proven,
    every source stays available, and no evicted generation depends on them. The exception are generations
    with the strategy cache_only: they are evicted last, and may be lost for good, as that strategy permits.
    """
    unreliable_copies: dict[Ref, str] = {}
    if unavailable_reason:
        persisted = [d for d in lineage.datasets.values() if d.persisted]
        lineage = lineage.with_changes(*(replace(d, under=UnderStoreState.NONE) for d in persisted))
        unreliable_copies = dict.fromkeys(
            (d.ref for d in persisted), f"its copy cannot be verified: {unavailable_reason}"
        )
    draft = _Draft(lineage, protected, unreliable_copies)
    for dataset, rule in _candidates(lineage, replacement, now):
        if draft.freed_bytes >= needed_bytes:
            break
        draft.consider(dataset, rule, now)
    return EvictionPlan(
        tuple(draft.victims),
        draft.freed_bytes,
        max(needed_bytes - draft.freed_bytes, 0),
        draft.retention_reasons,
        unavailable_reason,
    )


def _candidates(lineage: Lineage, replacement: str, now: float) -> Iterator[tuple[Dataset, str]]:
    """Yield everything in the cache with the rule it may be evicted by, in the order of consideration."""
    cached = [d for d in lineage.datasets.values() if d.in_cache and d.phase is Phase.COMMITTED]
    cached.sort(key=lambda d: (_usefulness(d, replacement, now), d.ref))
    yield from (
        (d, "persisted" if d.persisted else "not_requested") for d in cached if d.persisted or not d.persist_requested
    )
    yield from ((d, "alternate") for d in cached if not d.persisted and d.persist_requested)
    yield from ((d, "cache_only") for d in cached if not d.persisted and d.strategy is Strategy.CACHE_ONLY)


def _usefulness(dataset: Dataset, replacement: str, now: float) -> float:
    """Return the sort key: lower values are evicted first."""
    if replacement == "lru":
        return dataset.last_used_at
    if replacement == "lrfu":
        return (1 + dataset.reads) * exp2(-max(now - dataset.last_used_at, 0.0) / _HALF_LIFE)
    raise ValueError(f"replacement {replacement!r} is not known; use lru or lrfu")


@dataclass
class _Draft:
    """A plan under construction."""

    lineage: Lineage
    protected: frozenset[Ref]
    unreliable_copies: Mapping[Ref, str]  # why these copies cannot be relied on
    victims: list[Victim] = field(default_factory=list)
    unpersisted_victims: set[Ref] = field(default_factory=set)  # the victims that are not persisted
    freed_bytes: int = 0
    retention_reasons: dict[Ref, str] = field(default_factory=dict)

    def consider(self, dataset: Dataset, rule: str, now: float) -> None:
        """Make `dataset` a victim or record why it stays."""
        ref = dataset.ref
        if ref in self.unpersisted_victims:
            return
        if reason := self._retention_reason(dataset, rule):
            self.retention_reasons[ref] = reason
            return
        self.retention_reasons.pop(ref, None)
        if not dataset.persisted:
            self.unpersisted_victims.add(ref)
        self.freed_bytes += dataset.bytes
        idle = f"{format_bytes(dataset.bytes)}, last used {format_seconds(max(now - dataset.last_used_at, 0.0))} ago"
        self.victims.append(
            Victim(
                ref,
                dataset.bytes,
                "not_requested" if rule == "cache_only" else rule,
                f"{idle}; {self._eviction_reason(dataset)}",
            )
        )

    def _retention_reason(self, dataset: Dataset, rule: str) -> str:
        if dataset.pinned:
            return "it is pinned"
        if dataset.ref in self.protected:
            return "it is being read or written"
        if dataset.ref in self.unreliable_copies:
            return self.unreliable_copies[dataset.ref]
        if rule == "persisted":
            return ""
        dependents = [d for d in self.lineage.dependents(dataset.ref) if self._needs_sources(d)]
        if rule == "cache_only":  # other cache_only generations do not protect it
            dependents = [d for d in dependents if self.lineage.datasets[d].strategy is not Strategy.CACHE_ONLY]
        if dependents:
            return f"{format_list(dependents)} left the cache unpersisted, and their recomputation reads it"
        if rule == "cache_only":
            return ""
        if causes := self.lineage.recompute_obstacles(dataset.ref):
            return f"it is not persisted and cannot be recomputed: {'; '.join(causes)}"
        operation = self.lineage.operation_of(dataset.ref)
        if operation is None or operation.repeats < 1:
            name = operation.name if operation else "its operation"
            return f"it is not persisted, and {name} is not proven idempotent yet"
        if unavailable := [s for s in dataset.sources if not self._stays_available(s)]:
            return (
                f"it is not persisted, and its recomputation would need "
                f"{format_list(unavailable)}, which is not available"
            )
        return ""

    def _eviction_reason(self, dataset: Dataset) -> str:
        if dataset.persisted:
            return "a verified copy is in the under-store"
        operation = self.lineage.operation_of(dataset.ref)
        if operation and operation.repeats and self.lineage.is_recomputable(dataset.ref):
            unwanted = "" if dataset.persist_requested else "it is not to be persisted; "
            inputs = f" from {format_list(dataset.sources)}" if dataset.sources else ""
            return f"{unwanted}{operation.name} recomputes it in one step{inputs}"
        return "its strategy is cache_only, without a guarantee: it may be lost permanently"

    def _stays_available(self, source: Ref) -> bool:
        dataset = self.lineage.datasets.get(source)
        return dataset is not None and dataset.available and source not in self.unpersisted_victims

    def _needs_sources(self, ref: Ref) -> bool:
        """Whether it is unpersisted, evicted already or by this plan, and repeatable."""
        dataset = self.lineage.datasets[ref]
        if dataset.phase is not Phase.COMMITTED or dataset.persisted:
            return False
        if dataset.in_cache and ref not in self.unpersisted_victims:
            return False
        return not self.lineage.repeat_obstacle(ref)
