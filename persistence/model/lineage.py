"""The lineage graph: sources of each generation, what is recomputable, and what must be run for that.

All walks are iterative (no recursion) and memoized, so that lineages of
100,000 generations in memory are quick. Source: docs/persistence.md, "Recomputable".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import CacheState, Dataset, Idempotence, Operation, Phase, Ref

Node = TypeVar("Node", bound=Hashable)

_REMOVED_PHASES = (Phase.RETIRED, Phase.ABANDONED)


@dataclass(frozen=True)
class Lineage:
    """A part of the catalog's lineage graph in memory, with the questions of what can be recomputed.

    A source that is not in `datasets` counts as missing, so `datasets` must contain the ancestors of the generations
    in question up to the nearest persisted ones.

    Args:
        datasets: the generations by name.
        operations: by name and version.
        readers: by operation name, which operations declare its output as a source, so that a reader may still be to
            come. Empty: unknown.

    Example:
        >>> load, split = Ref("load", 1), Ref("split", 1)
        >>> made = Dataset(split, call=Call("split", "1"), sources=(load,))
        >>> operations = {("split", "1"): Operation("split", "1", idempotent=True)}
        >>> lineage = Lineage({load: Dataset(load), split: made}, operations)
        >>> lineage.dependents(load), lineage.is_recomputable(split)
        ((Ref(path='split', generation=1),), False)
    """

    datasets: Mapping[Ref, Dataset]
    operations: Mapping[tuple[str, str], Operation]
    readers: Mapping[str, Collection[str]] = field(default_factory=dict)

    def operation_of(self, ref: Ref) -> Operation | None:
        """Return the operation that made `ref`, in its version; None if none is recorded."""
        dataset = self.datasets.get(ref)
        if dataset is None or dataset.call is None:
            return None
        return self.operations.get((dataset.call.name, dataset.call.version))

    def dependents(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the generations made directly from `ref`, sorted."""
        return self._dependents.get(ref, ())

    def expected_readers(self, ref: Ref) -> tuple[str, ...]:
        """Return the operations expected to read `ref`: open dependents, and declared readers not committed yet."""
        dataset = self.datasets[ref]
        children = [self.datasets[d] for d in self.dependents(ref)]
        names = {d.call.name for d in children if d.phase is Phase.OPEN and d.call}
        if dataset.call and not dataset.superseded and dataset.phase not in _REMOVED_PHASES:
            committed = {d.call.name for d in children if d.phase is Phase.COMMITTED and d.call}
            names |= set(self.readers.get(dataset.call.name, ())) - committed
        return tuple(sorted(names))

    def source_bytes(self, ref: Ref) -> int:
        """Return the total bytes of all known sources of `ref`."""
        return sum(self.datasets[s].bytes for s in self.datasets[ref].sources if s in self.datasets)

    def unpersisted_ancestors(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the ancestors that recomputing `ref` without the cache requires, sources first."""
        return tuple(
            postorder([ref], lambda r: (s for s in self._recorded_sources(r) if not self.has_persisted_copy(s)))
        )[:-1]

    def unpersisted_descendants(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the descendants whose recomputation without the cache requires `ref`, sources first."""
        order = list(
            postorder([ref], lambda r: (d for d in self.dependents(r) if not self._is_persisted_or_removed(d)))
        )
        return tuple(reversed(order))[1:]

    def has_persisted_copy(self, ref: Ref) -> bool:
        """Whether a verified copy is in the under-store, so that a loss of the cache does not affect it."""
        dataset = self.datasets.get(ref)
        return dataset is not None and _has_persisted_copy(dataset)

    def is_recomputable(self, ref: Ref) -> bool:
        """Whether `ref` could be recomputed if the whole cache were lost.

        True if its operation is repeatable and every source is persisted or itself recomputable.
        """
        return not self.recompute_obstacles(ref)

    def is_restorable(self, ref: Ref) -> bool:
        """Whether `ref` is available, or could be recomputed from what is available now, the cache included."""
        dataset = self.datasets.get(ref)
        if dataset is not None and _is_available(dataset):
            return True
        return not self._find_causes([ref], _is_available, self._restorable_memo, self.repeat_obstacle)[ref]

    def recompute_obstacles(self, ref: Ref) -> tuple[str, ...]:
        """Return the first causes upstream, as sentences, why `ref` is not recomputable; empty if it is."""
        return self.recompute_obstacles_by_ref([ref])[ref]

    def recompute_obstacles_by_ref(self, refs: Iterable[Ref]) -> Mapping[Ref, tuple[str, ...]]:
        """Return `recompute_obstacles` for many generations, in one walk."""
        return self._find_causes(list(refs), _has_persisted_copy, self._obstacles_memo, self.repeat_obstacle)

    def repeat_obstacle(self, ref: Ref) -> str:
        """Return why the operation that made `ref` cannot be re-run, regardless of its sources; empty if it can."""
        dataset = self.datasets.get(ref)
        if dataset is None:
            return f"{ref} is not in the catalog"
        if dataset.phase in _REMOVED_PHASES:
            return f"{ref} is {dataset.phase.value}"
        if dataset.call is None:
            return f"no operation is recorded for {ref}"
        operation = self.operation_of(ref)
        name = f"{dataset.call.name} (version {dataset.call.version}), which made {ref},"
        if operation is None:
            return f"{name} is not registered"
        if not operation.idempotent:
            return f"{name} is not idempotent"
        if operation.nondeterministic:
            return f"{name} was declared idempotent but a second run returned another digest"
        if not operation.runnable:
            return f"{name} cannot be run: its code no longer exists"
        return ""

    def unproven_reason(self, ref: Ref) -> str:
        """Return why the operation that made `ref` is only declared idempotent, not proven; empty otherwise."""
        operation = self.operation_of(ref)
        if operation is None or operation.idempotence is not Idempotence.DECLARED:
            return ""
        return (
            f"{operation.name} (version {operation.version}), which made {ref}, is declared idempotent, but not proven"
        )

    def unproven_reasons(self, ref: Ref) -> tuple[str, ...]:
        """Return the first unproven operations that recomputing `ref` after a loss of the cache would run.

        Empty if there are none, and if it cannot be recomputed at all.
        """
        if self.has_persisted_copy(ref) or not self.is_recomputable(ref):
            return ()
        return self._find_causes([ref], _has_persisted_copy, self._unproven_memo, self.unproven_reason)[ref]

    def find_unproven(self, refs: Iterable[Ref]) -> Mapping[Ref, tuple[str, ...]]:
        """Return those of `refs` that only unproven operations can restore, with the first of these operations.

        Available generations need no operation; generations that cannot be restored at all are left out.
        """
        targets = [ref for ref in refs if ref not in self.datasets or not self.datasets[ref].available]
        blocked = self._find_causes(targets, _is_available, {}, self.repeat_obstacle)
        reasons = self._find_causes(targets, _is_available, {}, self.unproven_reason)
        return {ref: reasons[ref] for ref in targets if reasons[ref] and not blocked[ref]}

    def recompute_order(
        self, refs: Iterable[Ref], *, without: frozenset[Ref] = frozenset()
    ) -> tuple[tuple[Ref, ...], dict[Ref, tuple[str, ...]]]:
        """Return what must be run, in order, to have all of `refs` again; and the irrecoverable ones with the causes.

        Available generations are not re-run, but the cached bytes of those in `without` count as lost.
        """

        def is_readable(dataset: Dataset) -> bool:
            return dataset.available and (dataset.persisted or dataset.ref not in without)

        missing = [r for r in dict.fromkeys(refs) if r not in self.datasets or not is_readable(self.datasets[r])]
        causes = self._find_causes(missing, is_readable, {}, self.repeat_obstacle)
        blocked = {ref: causes[ref] for ref in missing if causes[ref]}
        possible = [ref for ref in missing if ref not in blocked]
        return tuple(postorder(possible, lambda ref: self._missing_sources(ref, is_readable))), blocked

    def with_changes(self, *datasets: Dataset) -> Lineage:
        """Return the lineage with these generations replaced: for what-if questions."""
        return replace(self, datasets={**self.datasets, **{dataset.ref: dataset for dataset in datasets}})

    def without_cache(self) -> Lineage:
        """Return the lineage as it would be after a loss of the whole cache."""
        return self.with_changes(*(replace(d, cache=CacheState.LOST) for d in self.datasets.values() if d.in_cache))

    @cached_property
    def _dependents(self) -> Mapping[Ref, tuple[Ref, ...]]:
        index: dict[Ref, list[Ref]] = {}
        for dataset in self.datasets.values():
            for source in dict.fromkeys(dataset.sources):
                index.setdefault(source, []).append(dataset.ref)
        return {ref: tuple(sorted(children)) for ref, children in index.items()}

    @cached_property
    def _obstacles_memo(self) -> dict[Ref, tuple[str, ...]]:
        return {}

    @cached_property
    def _restorable_memo(self) -> dict[Ref, tuple[str, ...]]:
        return {}

    @cached_property
    def _unproven_memo(self) -> dict[Ref, tuple[str, ...]]:
        return {}

    def _is_persisted_or_removed(self, ref: Ref) -> bool:
        return self.datasets[ref].phase in _REMOVED_PHASES or self.datasets[ref].persisted

    def _recorded_sources(self, ref: Ref) -> Iterable[Ref]:
        return (source for source in self.datasets[ref].sources if source in self.datasets)

    def _missing_sources(self, ref: Ref, is_readable: Callable[[Dataset], bool]) -> Iterable[Ref]:
        dataset = self.datasets.get(ref)
        for source in dataset.sources if dataset else ():
            if source not in self.datasets or not is_readable(self.datasets[source]):
                yield source

    def _find_causes(
        self,
        refs: Iterable[Ref],
        is_readable: Callable[[Dataset], bool],
        causes_by_ref: dict[Ref, tuple[str, ...]],
        own_cause: Callable[[Ref], str],
    ) -> dict[Ref, tuple[str, ...]]:
        """Fill `causes_by_ref` with `own_cause` of each of `refs`, else with the causes of its missing sources.

        Readable generations need not be recomputed; an empty tuple means no obstacle.
        """

        def upstream(ref: Ref) -> Iterable[Ref]:
            return (source for source in self._missing_sources(ref, is_readable) if source not in causes_by_ref)

        for ref in postorder([ref for ref in refs if ref not in causes_by_ref], upstream):
            inherited = [
                causes_by_ref[source] for source in self._missing_sources(ref, is_readable) if causes_by_ref[source]
            ]
            if own := own_cause(ref):
                causes_by_ref[ref] = (own,)
            elif len(inherited) == 1:
                causes_by_ref[ref] = inherited[0]
            else:
                causes_by_ref[ref] = tuple(dict.fromkeys(cause for causes in inherited for cause in causes))
        return causes_by_ref


def check_acyclic(edges: Mapping[str, Iterable[str]]) -> None:
    """Raise `CyclicLineageError`, naming the cycle, if `edges` contain one."""
    for _ in postorder(edges, lambda name: edges.get(name, ())):
        pass


def _has_persisted_copy(dataset: Dataset) -> bool:
    return dataset.persisted and dataset.phase not in _REMOVED_PHASES


def _is_available(dataset: Dataset) -> bool:
    return dataset.available


def postorder(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> Iterable[Node]:
    """Yield the nodes reachable from `starts`, each once, after all nodes that follow from it."""
    visited: set[Node] = set()
    for start in starts:
        if start in visited:
            continue
        open_: dict[Node, None] = {start: None}  # the path from the start to here, in order
        stack = [(start, iter(following(start)))]
        while stack:
            node, rest = stack[-1]
            successor = next((n for n in rest if n not in visited), None)
            if successor is None:
                stack.pop()
                del open_[node]
                visited.add(node)
                yield node
            elif successor in open_:
                ancestors = list(open_)
                cycle = [*ancestors[ancestors.index(successor) :], successor]
                raise CyclicLineageError(f"cyclic lineage: {' -> '.join(map(str, cycle))}")
            else:
                open_[successor] = None
                stack.append((successor, iter(following(successor))))
