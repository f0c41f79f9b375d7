"""The lineage graph: which generation came from which, what can be made again, and what must be run for it.

Everything walks with a stack of its own (no recursion) and remembers what it found, so that lineages of
100,000 generations in memory are quick. Source: docs/persistence.md, "Recomputable".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Cache, Dataset, Idempotence, Operation, Phase, Ref

Node = TypeVar("Node", bound=Hashable)

_GONE = (Phase.RETIRED, Phase.ABANDONED)


@dataclass(frozen=True)
class Lineage:
    """A neighbourhood of the catalog, in memory: which generation came from which, and what can be made again.

    A source that is not in `datasets` counts as gone, so a neighbourhood must hold the sources of whatever
    it asks about, up to the nearest persisted ones.

    Args:
        datasets: the generations by name.
        operations: by name and version.
        readers: by operation name, which operations declare its output as a source: what has not read a generation
            yet may still do so. Empty: nothing is known.

    Example:
        >>> load, split = Ref("load", 1), Ref("split", 1)
        >>> made = Dataset(split, call=Call("split", "1"), sources=(load,))
        >>> operations = {("split", "1"): Operation("split", "1", idempotent=True)}
        >>> lineage = Lineage({load: Dataset(load), split: made}, operations)
        >>> lineage.dependents(load), lineage.recomputable(split)
        ((Ref(path='split', generation=1),), False)
    """

    datasets: Mapping[Ref, Dataset]
    operations: Mapping[tuple[str, str], Operation]
    readers: Mapping[str, Collection[str]] = field(default_factory=dict)

    def operation_of(self, ref: Ref) -> Operation | None:
        """The operation, at its version, that made `ref`; None where none is recorded."""
        dataset = self.datasets.get(ref)
        if dataset is None or dataset.call is None:
            return None
        return self.operations.get((dataset.call.name, dataset.call.version))

    def dependents(self, ref: Ref) -> tuple[Ref, ...]:
        """The generations made directly from `ref`, sorted."""
        return self._dependents.get(ref, ())

    def to_run(self, ref: Ref) -> tuple[str, ...]:
        """The operations that are known to read `ref` still: open dependents, and declared readers not seen yet."""
        dataset = self.datasets[ref]
        made = [self.datasets[d] for d in self.dependents(ref)]
        names = {d.call.name for d in made if d.phase is Phase.OPEN and d.call}
        if dataset.call and not dataset.superseded and dataset.phase not in _GONE:
            done = {d.call.name for d in made if d.phase is Phase.COMMITTED and d.call}
            names |= set(self.readers.get(dataset.call.name, ())) - done
        return tuple(sorted(names))

    def source_bytes(self, ref: Ref) -> int:
        """The bytes of all sources of `ref` that are known."""
        return sum(self.datasets[s].bytes for s in self.datasets[ref].sources if s in self.datasets)

    def unpersisted_above(self, ref: Ref) -> tuple[Ref, ...]:
        """The ancestors that running `ref` again without the cache goes back to, sources first."""
        return tuple(postorder([ref], lambda r: (s for s in self._known_sources(r) if not self.kept(s))))[:-1]

    def unpersisted_below(self, ref: Ref) -> tuple[Ref, ...]:
        """The descendants that running again without the cache goes back to `ref`, sources first."""
        order = list(postorder([ref], lambda r: (d for d in self.dependents(r) if not self._kept_or_gone(d))))
        return tuple(reversed(order))[1:]

    def kept(self, ref: Ref) -> bool:
        """Is a verified copy in the under-store, so that a loss of the cache does not touch it?"""
        dataset = self.datasets.get(ref)
        return dataset is not None and _kept_below(dataset)

    def recomputable(self, ref: Ref) -> bool:
        """Could `ref` be made again if the whole cache were lost?

        Yes if its operation is repeatable and every source is persisted or itself recomputable.
        """
        return not self.why_not_recomputable(ref)

    def why_not_recomputable(self, ref: Ref) -> tuple[str, ...]:
        """What stands in the way, in plain words: the first causes, wherever upstream; empty if nothing does."""
        return self.why_each_not_recomputable([ref])[ref]

    def why_each_not_recomputable(self, refs: Iterable[Ref]) -> Mapping[Ref, tuple[str, ...]]:
        """The same of many at once, in one walk."""
        return self._causes(list(refs), _kept_below, self._memo, self.why_not_repeatable)

    def why_not_repeatable(self, ref: Ref) -> str:
        """Why the operation that made `ref` may not be relied on to make it again, whatever its sources; or empty."""
        dataset = self.datasets.get(ref)
        if dataset is None:
            return f"{ref} is not in the catalog"
        if dataset.phase in _GONE:
            return f"{ref} is {dataset.phase.value}"
        if dataset.call is None:
            return f"no operation is recorded that made {ref}"
        operation = self.operation_of(ref)
        name = f"{dataset.call.name} (version {dataset.call.version}), which made {ref},"
        if operation is None:
            return f"{name} is not registered"
        if not operation.idempotent:
            return f"{name} is not idempotent"
        if operation.unmasked:
            return f"{name} was declared idempotent but a second run gave another digest"
        if not operation.runnable:
            return f"{name} cannot be run: its code is no longer there"
        return ""

    def why_not_proven(self, ref: Ref) -> str:
        """Why the operation that made `ref` might not make it again, though it is declared idempotent; or empty."""
        operation = self.operation_of(ref)
        if operation is None or operation.idempotence is not Idempotence.DECLARED:
            return ""
        return (
            f"{operation.name} (version {operation.version}), which made {ref}, "
            "is declared idempotent and was never seen to repeat its digest"
        )

    def doubts(self, ref: Ref) -> tuple[str, ...]:
        """The first operations that were never seen to repeat, of those that a loss of the cache would have run for it.

        Empty where there are none, and where it cannot be made again at all.
        """
        if self.kept(ref) or not self.recomputable(ref):
            return ()
        return self._causes([ref], _kept_below, self._doubts, self.why_not_proven)[ref]

    def unproven(self, refs: Iterable[Ref]) -> Mapping[Ref, tuple[str, ...]]:
        """Those of `refs` that only operations bring back that were never seen to repeat, with these, the first ones.

        Of what can be brought back at all; what is available needs no operation.
        """
        targets = [ref for ref in refs if ref not in self.datasets or not self.datasets[ref].available]
        blocked = self._causes(targets, _available, {}, self.why_not_repeatable)
        doubts = self._causes(targets, _available, {}, self.why_not_proven)
        return {ref: doubts[ref] for ref in targets if doubts[ref] and not blocked[ref]}

    def chains(
        self, refs: Iterable[Ref], *, without: frozenset[Ref] = frozenset()
    ) -> tuple[tuple[Ref, ...], dict[Ref, tuple[str, ...]]]:
        """What must be run, in order, to have all of `refs` again; and those that cannot come back, with the causes.

        Nothing is run for what is at hand: it is available, the cached bytes of those in `without` taken as gone.
        """

        def at_hand(dataset: Dataset) -> bool:
            return dataset.available and (dataset.persisted or dataset.ref not in without)

        missing = [r for r in dict.fromkeys(refs) if r not in self.datasets or not at_hand(self.datasets[r])]
        causes = self._causes(missing, at_hand, {}, self.why_not_repeatable)
        blocked = {ref: causes[ref] for ref in missing if causes[ref]}
        possible = [ref for ref in missing if ref not in blocked]
        return tuple(postorder(possible, lambda ref: self._missing_sources(ref, at_hand))), blocked

    def changed(self, *datasets: Dataset) -> Lineage:
        """The same lineage with these generations in place of what was recorded: for what-if questions."""
        return replace(self, datasets={**self.datasets, **{dataset.ref: dataset for dataset in datasets}})

    def without_cache(self) -> Lineage:
        """The same lineage after a loss of the whole cache."""
        return self.changed(*(replace(d, cache=Cache.LOST) for d in self.datasets.values() if d.in_cache))

    @cached_property
    def _dependents(self) -> Mapping[Ref, tuple[Ref, ...]]:
        index: dict[Ref, list[Ref]] = {}
        for dataset in self.datasets.values():
            for source in dict.fromkeys(dataset.sources):
                index.setdefault(source, []).append(dataset.ref)
        return {ref: tuple(sorted(found)) for ref, found in index.items()}

    @cached_property
    def _memo(self) -> dict[Ref, tuple[str, ...]]:
        return {}

    @cached_property
    def _doubts(self) -> dict[Ref, tuple[str, ...]]:
        return {}

    def _kept_or_gone(self, ref: Ref) -> bool:
        return self.datasets[ref].phase in _GONE or self.datasets[ref].persisted

    def _known_sources(self, ref: Ref) -> Iterable[Ref]:
        return (source for source in self.datasets[ref].sources if source in self.datasets)

    def _missing_sources(self, ref: Ref, at_hand: Callable[[Dataset], bool]) -> Iterable[Ref]:
        dataset = self.datasets.get(ref)
        for source in dataset.sources if dataset else ():
            if source not in self.datasets or not at_hand(self.datasets[source]):
                yield source

    def _causes(
        self,
        refs: Iterable[Ref],
        at_hand: Callable[[Dataset], bool],
        known: dict[Ref, tuple[str, ...]],
        of_its_own: Callable[[Ref], str],
    ) -> dict[Ref, tuple[str, ...]]:
        """Fill `known` with what `of_its_own` says against each of `refs`, else against what it would be made from.

        What is at hand need not be made; empty: nothing speaks against it.
        """

        def upstream(ref: Ref) -> Iterable[Ref]:
            return (source for source in self._missing_sources(ref, at_hand) if source not in known)

        for ref in postorder([ref for ref in refs if ref not in known], upstream):
            inherited = [known[source] for source in self._missing_sources(ref, at_hand) if known[source]]
            if own := of_its_own(ref):
                known[ref] = (own,)
            elif len(inherited) == 1:
                known[ref] = inherited[0]
            else:
                known[ref] = tuple(dict.fromkeys(cause for causes in inherited for cause in causes))
        return known


def check_acyclic(edges: Mapping[str, Iterable[str]]) -> None:
    """Raise `CyclicLineageError`, naming the cycle, if following `edges` leads back to a start."""
    for _ in postorder(edges, lambda name: edges.get(name, ())):
        pass


def _kept_below(dataset: Dataset) -> bool:
    return dataset.persisted and dataset.phase not in _GONE


def _available(dataset: Dataset) -> bool:
    return dataset.available


def postorder(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> Iterable[Node]:
    """Yield what can be reached from `starts`, each once, after everything that follows from it."""
    done: set[Node] = set()
    for start in starts:
        if start in done:
            continue
        open_: dict[Node, None] = {start: None}  # the way down to here, in order
        stack = [(start, iter(following(start)))]
        while stack:
            node, rest = stack[-1]
            below = next((n for n in rest if n not in done), None)
            if below is None:
                stack.pop()
                del open_[node]
                done.add(node)
                yield node
            elif below in open_:
                way = list(open_)
                cycle = [*way[way.index(below) :], below]
                raise CyclicLineageError(f"lineage leads back to itself: {' -> '.join(map(str, cycle))}")
            else:
                open_[below] = None
                stack.append((below, iter(following(below))))
