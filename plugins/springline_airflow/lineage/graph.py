"""A lineage graph of generations: nodes and edges, and the neighbourhood of one generation as such a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from springline.persistence.model.dataset import Dataset, DatasetStatus, Ref


@dataclass(frozen=True, slots=True)
class Node:
    """A generation; its `key` is its name.

    `step`: how far it is from the generation in the middle, sources below 0, dependents above. `layer` and `place`
    count from 0, see `layers.lay_out`.
    """

    key: str
    path: str
    generation: int
    step: int = 0
    status: str = ""
    bytes: int = 0
    operation: str = ""
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    layer: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """From a source to what was made from it; `stale`: a newer generation of the source has superseded it."""

    source: str
    target: str
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph: nodes, and the edges between their keys."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def draw(steps: Mapping[Ref, int], datasets: Iterable[Dataset], statuses: Mapping[Ref, DatasetStatus]) -> Graph:
    """Return the graph of these generations, with an edge for each source that is among them.

    `steps`: how far each is from the one in the middle.
    """
    by_ref = {dataset.ref: dataset for dataset in datasets}
    nodes = tuple(_node(dataset, steps[ref], statuses[ref]) for ref, dataset in sorted(by_ref.items()))
    edges = tuple(
        Edge(str(source), str(ref), by_ref[source].superseded)
        for ref, dataset in sorted(by_ref.items())
        for source in dict.fromkeys(dataset.sources)
        if source in by_ref
    )
    return Graph(nodes, edges)


def _node(dataset: Dataset, step: int, status: DatasetStatus) -> Node:
    return Node(
        key=str(dataset.ref),
        path=dataset.ref.path,
        generation=dataset.ref.generation,
        step=step,
        status=status.value,
        bytes=dataset.bytes,
        operation=dataset.call.name if dataset.call else "",
        dag_id=dataset.origin.dag_id,
        run_id=dataset.origin.run_id,
        task_id=dataset.origin.task_id,
    )
