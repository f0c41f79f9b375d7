"""Layout of the lineage graph: sources are left of what was made from them, with few crossing edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import rustworkx

from springline.airflow.lineage.graph import Graph

_SWEEPS = 4  # passes that order the layers by their neighbours; more hardly change anything


def lay_out(graph: Graph) -> Graph:
    """Return the graph with `layer` and `place` set, both from 0; the layout is deterministic.

    Nodes of a cycle, which groups of datasets may form, share a layer. Within a layer each node is placed at the mean
    place of its neighbours, sweep by sweep: the barycentre method of Sugiyama, Tagawa and Toda (1981).
    """
    number = {node.key: i for i, node in enumerate(graph.nodes)}
    pairs = [(number[e.source], number[e.target]) for e in graph.edges if e.source in number and e.target in number]
    layer, place = arrange(len(number), pairs)
    nodes = (replace(node, layer=layer[i], place=place[i]) for i, node in enumerate(graph.nodes))
    return replace(graph, nodes=tuple(nodes))


def arrange(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the layer and the place of each of `count` nodes, given the edges between them."""
    layer = _layers(count, pairs)
    return layer, _places(layer, pairs)


def _layers(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node: one beyond the last of its sources."""
    digraph: rustworkx.PyDiGraph = rustworkx.PyDiGraph()
    digraph.add_nodes_from(range(count))
    digraph.add_edges_from_no_data(list(pairs))
    loops = rustworkx.strongly_connected_components(digraph)
    component_of = {node: i for i, loop in enumerate(loops) for node in loop}
    acyclic: rustworkx.PyDiGraph = rustworkx.PyDiGraph(multigraph=False)
    acyclic.add_nodes_from(range(len(loops)))
    acyclic.add_edges_from_no_data(
        [(component_of[a], component_of[b]) for a, b in pairs if component_of[a] != component_of[b]]
    )
    layers = [0] * count
    for depth, generation in enumerate(rustworkx.topological_generations(acyclic)):
        for i in generation:
            for node in loops[i]:
                layers[node] = depth
    return layers


def _places(layer: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the place of each node within its layer."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, depth in enumerate(layer):
        rows[depth].append(node)
    predecessors: list[list[int]] = [[] for _ in layer]
    successors: list[list[int]] = [[] for _ in layer]
    for source, target in pairs:
        predecessors[target].append(source)
        successors[source].append(target)
    place = [0] * len(layer)
    _number(rows, place)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for row in rows if forward else reversed(rows):
            _order(row, predecessors if forward else successors, place)
    return place


def _order(row: list[int], neighbours: Sequence[Sequence[int]], place: list[int]) -> None:
    """Sort a layer by the mean place of its nodes' neighbours; a node without neighbours keeps its place."""
    middle = {n: sum(place[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else place[n] for n in row}
    row.sort(key=lambda n: (middle[n], place[n]))
    _number([row], place)


def _number(rows: Iterable[Sequence[int]], place: list[int]) -> None:
    for row in rows:
        for i, node in enumerate(row):
            place[node] = i
