"""The lineage graph: nodes, edges, and how each dataset would be restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.model.lineage import Lineage

_LIVE = (Phase.OPEN, Phase.COMMITTED)


class NodeKind(StrEnum):
    """What a node represents."""

    DATASET = "dataset"  # the newest generation of a path, older ones folded into it
    OPERATION = "operation"  # one call of an operation
    FOLD = "fold"  # several datasets


class RecoveryKind(StrEnum):
    """How a dataset would be restored if the whole cache were lost now."""

    PERSISTED = "persisted"  # not needed: it is in the under-store
    RECOMPUTABLE = "recomputable"  # by running its operation again
    UNPROVEN = "unproven"  # the same, but an operation of the chain is only declared idempotent, not proven
    IRRECOVERABLE = "irrecoverable"  # impossible


@dataclass(frozen=True, slots=True)
class Node:
    """A dataset, an operation, or a fold of datasets.

    `states`, `methods` and `recovery_kinds` count the datasets in it. `needs` are the nodes whose datasets would have
    to be recomputed directly before it; following them gives the whole chain. `layer` and `place` count from 0.
    """

    key: str
    kind: NodeKind
    label: str
    states: Mapping[str, int] = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)  # how persisted: data or operation
    recovery_kinds: Mapping[str, int] = field(default_factory=dict)
    irrecoverable_reasons: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    datasets: int = 0
    bytes: int = 0
    generation: int | None = None
    older: tuple[int, ...] = ()  # generations of the path that are superseded and not retired
    stale: int = 0  # datasets made from a generation that is superseded now
    checkpoints: int = 0
    pinned: int = 0
    operation: str = ""
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    layer: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """From a source to what was made from it; `stale`: from a generation that is superseded now."""

    source: str
    target: str
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph: nodes, and the edges between their keys."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def draw(lineage: Lineage) -> Graph:
    """Return the newest live generation of every path, with an edge from each path that it was made from.

    `lineage` contains the sources of what is not persisted, up to the nearest persisted ones.
    """
    newest_by_path = _newest(lineage.datasets.values())
    older: dict[str, list[int]] = {}
    for dataset in lineage.datasets.values():
        if dataset.phase in _LIVE and dataset.ref != newest_by_path[dataset.ref.path].ref:
            older.setdefault(dataset.ref.path, []).append(dataset.ref.generation)
    reasons_by_ref = lineage.recompute_obstacles_by_ref(
        newest.ref for newest in newest_by_path.values() if not newest.persisted
    )
    nodes, edges = [], []
    for path in sorted(newest_by_path):
        dataset = newest_by_path[path]
        reasons = () if dataset.persisted else reasons_by_ref[dataset.ref]
        recovery_kind = (
            RecoveryKind.PERSISTED
            if dataset.persisted
            else RecoveryKind.IRRECOVERABLE
            if reasons
            else RecoveryKind.RECOMPUTABLE
        )
        if recovery_kind is RecoveryKind.RECOMPUTABLE and lineage.unproven_reasons(dataset.ref):
            recovery_kind = RecoveryKind.UNPROVEN
        nodes.append(
            _node(dataset, recovery_kind, reasons, lineage, newest_by_path, sorted(older.get(path, ()), reverse=True))
        )
        stale = {
            s.path: s != newest_by_path[s.path].ref
            for s in dataset.sources
            if s.path in newest_by_path and s.path != path
        }
        edges += [Edge(source, path, outdated) for source, outdated in stale.items()]
    return Graph(tuple(nodes), tuple(edges))


def with_operations(graph: Graph) -> Graph:
    """Return the graph with a node between each dataset and its sources: the operation that made it."""
    applications = {node.key: _application(node) for node in graph.nodes if node.operation}
    edges = [
        Edge(e.source, applications[e.target].key if e.target in applications else e.target, e.stale)
        for e in graph.edges
    ]
    edges += [Edge(application.key, key) for key, application in applications.items()]
    return Graph((*graph.nodes, *applications.values()), tuple(edges))


def _newest(datasets: Iterable[Dataset]) -> dict[str, Dataset]:
    """By path, the generation that readers see; if none is committed, the newest that is being written."""
    newest_by_path: dict[str, Dataset] = {}
    for dataset in datasets:
        if dataset.phase not in _LIVE:
            continue
        previous = newest_by_path.get(dataset.ref.path)
        if previous is None or _rank(dataset) > _rank(previous):
            newest_by_path[dataset.ref.path] = dataset
    return newest_by_path


def _rank(dataset: Dataset) -> tuple[bool, bool, int]:
    return dataset.phase is Phase.COMMITTED, not dataset.superseded, dataset.ref.generation


def _node(
    dataset: Dataset,
    recovery_kind: RecoveryKind,
    reasons: tuple[str, ...],
    lineage: Lineage,
    newest_by_path: Mapping[str, Dataset],
    older: list[int],
) -> Node:
    ref = dataset.ref
    needs: Iterable[str] = ()
    if recovery_kind in (RecoveryKind.RECOMPUTABLE, RecoveryKind.UNPROVEN):
        needs = dict.fromkeys(
            s.path for s in dataset.sources if s.path in newest_by_path and not lineage.has_persisted_copy(s)
        )
    return Node(
        key=ref.path,
        kind=NodeKind.DATASET,
        label=ref.path,
        states={dataset.status(recomputable=not reasons).value: 1},
        methods={dataset.method.value: 1} if dataset.method and dataset.persisted else {},
        recovery_kinds={recovery_kind.value: 1},
        irrecoverable_reasons=reasons,
        needs=tuple(needs),
        datasets=1,
        bytes=dataset.bytes,
        generation=ref.generation,
        older=tuple(older),
        stale=int(any(_is_superseded(source.path, source.generation, newest_by_path) for source in dataset.sources)),
        checkpoints=int(dataset.checkpoint),
        pinned=int(dataset.pinned),
        operation=dataset.call.name if dataset.call else "",
        dag_id=dataset.origin.dag_id,
        run_id=dataset.origin.run_id,
        task_id=dataset.origin.task_id,
    )


def _is_superseded(path: str, generation: int, newest_by_path: Mapping[str, Dataset]) -> bool:
    return path in newest_by_path and newest_by_path[path].ref.generation > generation


def _application(node: Node) -> Node:
    """Return the operation node of a dataset node; its key differs from all datasets': paths contain no colon."""
    return Node(
        key=f"operation:{node.key}", kind=NodeKind.OPERATION, label=node.operation, operation=node.operation,
        dag_id=node.dag_id, run_id=node.run_id, task_id=node.task_id,
    )  # fmt: skip


def sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts, by name."""
    summed: Counter[str] = Counter()
    for each in counts:
        summed.update(each)
    return dict(sorted(summed.items()))
