"""Takes the names out of a lineage that somebody may not read, so that nothing said of it can tell them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from persistence.lineage import Lineage
from persistence.model import Dataset, Ref
from springline_airflow.lineage.graph import Graph

_HIDDEN = "hidden:"  # no dataset's path holds a colon


def veiled(lineage: Lineage, reads: Callable[[Dataset], bool]) -> Lineage:
    """The same lineage with another name for each dataset that `reads` refuses; what follows from it is the same.

    A source that is not in the lineage is not known to be readable, and is hidden too. Operations keep their names:
    they are the platform's code, not a DAG's.
    """
    known = lineage.datasets
    named = {source for dataset in known.values() for source in dataset.sources} | set(known)
    hidden = [ref for ref in named if ref not in known or not reads(known[ref])]
    if not hidden:
        return lineage
    number = {path: i for i, path in enumerate(sorted({ref.path for ref in hidden}), start=1)}
    instead = {ref: Ref(f"{_HIDDEN}{number[ref.path]}", ref.generation) for ref in hidden}
    datasets = (
        replace(
            dataset,
            ref=instead.get(dataset.ref, dataset.ref),
            sources=tuple(instead.get(source, source) for source in dataset.sources),
        )
        for dataset in known.values()
    )
    return replace(lineage, datasets={dataset.ref: dataset for dataset in datasets})


def is_hidden(path: str) -> bool:
    """Whether a path is one that stands for another."""
    return path.startswith(_HIDDEN)


def without_hidden(graph: Graph) -> Graph:
    """The picture without what has no name of its own."""
    if not any(is_hidden(node.key) for node in graph.nodes):
        return graph
    nodes = tuple(
        replace(node, needs=tuple(need for need in node.needs if not is_hidden(need)))
        for node in graph.nodes
        if not is_hidden(node.key)
    )
    edges = tuple(e for e in graph.edges if not is_hidden(e.source) and not is_hidden(e.target))
    return Graph(nodes, edges)
