"""What a picture of the lineage consists of: nodes, edges, and what would bring each dataset back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.model.lineage import Lineage

_LIVE = (Phase.OPEN, Phase.COMMITTED)


class Kind(StrEnum):
    """What a node stands for."""

    DATASET = "dataset"  # the newest generation of a path, older ones folded into it
    OPERATION = "operation"  # one application of an operation
    FOLD = "fold"  # several datasets


class Return(StrEnum):
    """What would bring a dataset back if the whole cache were lost now."""

    KEPT = "kept"  # nothing has to: it is in the under-store
    RUN = "run"  # its operation, run again
    UNPROVEN = "unproven"  # the same, if it keeps its word: it, or one before it, was never seen to repeat
    GONE = "gone"  # nothing can


@dataclass(frozen=True, slots=True)
class Node:
    """A dataset, an operation, or a fold of datasets.

    `states`, `methods` and `returns` count the datasets in it. `needs` are the nodes whose datasets would have to
    be made again before it, directly: who follows them has the chain. `layer` and `place` count from 0.
    """

    key: str
    kind: Kind
    label: str
    states: Mapping[str, int] = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)  # how persisted: data or operation
    returns: Mapping[str, int] = field(default_factory=dict)
    why_gone: tuple[str, ...] = ()
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
    """From a source to what was made of it; `stale`: from a generation that is superseded now."""

    source: str
    target: str
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A picture: nodes by key, edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def draw(lineage: Lineage) -> Graph:
    """The newest live generation of every path, and an edge from each path that it was made from.

    `lineage` holds the sources of what is not persisted, up to the nearest persisted ones.
    """
    faces = _newest(lineage.datasets.values())
    older: dict[str, list[int]] = {}
    for dataset in lineage.datasets.values():
        if dataset.phase in _LIVE and dataset.ref != faces[dataset.ref.path].ref:
            older.setdefault(dataset.ref.path, []).append(dataset.ref.generation)
    gone = lineage.why_each_not_recomputable(face.ref for face in faces.values() if not face.persisted)
    nodes, edges = [], []
    for path in sorted(faces):
        dataset = faces[path]
        why = () if dataset.persisted else gone[dataset.ref]
        returns = Return.KEPT if dataset.persisted else Return.GONE if why else Return.RUN
        if returns is Return.RUN and lineage.doubts(dataset.ref):
            returns = Return.UNPROVEN
        nodes.append(_node(dataset, returns, why, lineage, faces, sorted(older.get(path, ()), reverse=True)))
        stale = {s.path: s != faces[s.path].ref for s in dataset.sources if s.path in faces and s.path != path}
        edges += [Edge(source, path, outdated) for source, outdated in stale.items()]
    return Graph(tuple(nodes), tuple(edges))


def with_operations(graph: Graph) -> Graph:
    """The same picture with a node between each dataset and its sources: the operation that made it."""
    made = {node.key: _application(node) for node in graph.nodes if node.operation}
    edges = [Edge(e.source, made[e.target].key if e.target in made else e.target, e.stale) for e in graph.edges]
    edges += [Edge(application.key, key) for key, application in made.items()]
    return Graph((*graph.nodes, *made.values()), tuple(edges))


def _newest(datasets: Iterable[Dataset]) -> dict[str, Dataset]:
    """By path, the generation that readers see; where none is committed, the newest that is being written."""
    faces: dict[str, Dataset] = {}
    for dataset in datasets:
        if dataset.phase not in _LIVE:
            continue
        known = faces.get(dataset.ref.path)
        if known is None or _rank(dataset) > _rank(known):
            faces[dataset.ref.path] = dataset
    return faces


def _rank(dataset: Dataset) -> tuple[bool, bool, int]:
    return dataset.phase is Phase.COMMITTED, not dataset.superseded, dataset.ref.generation


def _node(
    dataset: Dataset,
    returns: Return,
    why: tuple[str, ...],
    lineage: Lineage,
    faces: Mapping[str, Dataset],
    older: list[int],
) -> Node:
    ref = dataset.ref
    needs: Iterable[str] = ()
    if returns in (Return.RUN, Return.UNPROVEN):
        needs = dict.fromkeys(s.path for s in dataset.sources if s.path in faces and not lineage.kept(s))
    return Node(
        key=ref.path,
        kind=Kind.DATASET,
        label=ref.path,
        states={dataset.status(recomputable=not why).value: 1},
        methods={dataset.method.value: 1} if dataset.method and dataset.persisted else {},
        returns={returns.value: 1},
        why_gone=why,
        needs=tuple(needs),
        datasets=1,
        bytes=dataset.bytes,
        generation=ref.generation,
        older=tuple(older),
        stale=int(any(_superseded(source.path, source.generation, faces) for source in dataset.sources)),
        checkpoints=int(dataset.checkpoint),
        pinned=int(dataset.pinned),
        operation=dataset.call.name if dataset.call else "",
        dag_id=dataset.origin.dag_id,
        run_id=dataset.origin.run_id,
        task_id=dataset.origin.task_id,
    )


def _superseded(path: str, generation: int, faces: Mapping[str, Dataset]) -> bool:
    return path in faces and faces[path].ref.generation > generation


def _application(node: Node) -> Node:
    """The operation that made what a node stands for; its key is no dataset's: paths hold no colon."""
    return Node(
        key=f"operation:{node.key}", kind=Kind.OPERATION, label=node.operation, operation=node.operation,
        dag_id=node.dag_id, run_id=node.run_id, task_id=node.task_id,
    )  # fmt: skip


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up, by name."""
    summed: Counter[str] = Counter()
    for each in counts:
        summed.update(each)
    return dict(sorted(summed.items()))
