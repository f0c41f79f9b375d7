"""The whole picture of the lineage: templates, collapsed into groups where there are many, in layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from springline.airflow.lineage.grouping import Grouping, collapse, suitable_grouping
from springline.airflow.lineage.layers import arrange
from springline.airflow.lineage.live_index import LiveIndex
from springline.airflow.lineage.template_graph import (
    BrokenPartition,
    LineageFilter,
    TemplateEdge,
    TemplateNode,
    build_template_graph,
)


@dataclass(frozen=True, slots=True)
class StreamNode:
    """A stream job: its health by rule, the greatest lag of a unit in messages, and the bytes of its state.

    `reads` are the topics from outside, `results` those that it writes for others.
    """

    key: str
    label: str
    dag_id: str
    health: str
    health_reason: str
    lag: int | None
    state_bytes: int
    reads: Sequence[str]
    results: Sequence[str]
    layer: int = 0
    place: int = 0


Node = TypeVar("Node", TemplateNode, StreamNode)


@dataclass(frozen=True, slots=True)
class LineageOverview:
    """The templates that you may read; `partitions` names the columns of all strips, the oldest first.

    `earlier`, `later`: how many partitions are left out before and after. `overall`: the worst state of each partition
    over all templates. `broken`: partitions with lost generations, the newest first, at most 100 of `broken_count`.
    `templates` and `datasets` count what the filters match, collapsed into groups or not. `streams` are stream jobs; an
    edge leads from one to another that reads its results.
    """

    grouping: Grouping
    partitions: Sequence[str]
    earlier: int
    later: int
    overall: str
    broken: Sequence[BrokenPartition]
    broken_count: int
    templates: int
    datasets: int
    nodes: Sequence[TemplateNode]
    streams: Sequence[StreamNode]
    edges: Sequence[TemplateEdge]


def build_overview(
    index: LiveIndex,
    filters: LineageFilter,
    may_read_dag: Callable[[str], bool],
    grouping: Grouping | None = None,
    expanded: Collection[str] = (),
    streams: Sequence[StreamNode] = (),
) -> LineageOverview:
    """Return the picture of what `filters` and `may_read_dag` accept.

    `grouping`: by the number of templates if none is given; `expanded`: the keys of groups that are not collapsed.
    """
    graph = build_template_graph(index, filters, may_read_dag)
    templates, datasets = len(graph.nodes), sum(sum(node.states.values()) for node in graph.nodes)
    effective = grouping or suitable_grouping(graph.nodes)
    graph = collapse(graph, effective, expanded)
    edges = [*graph.edges, *_topic_edges(streams)]
    keys = [*(node.key for node in graph.nodes), *(stream.key for stream in streams)]
    number = {key: i for i, key in enumerate(keys)}
    layers, places = arrange(len(keys), [(number[edge.source], number[edge.target]) for edge in edges])
    position = {key: (layers[i], places[i]) for key, i in number.items()}
    return LineageOverview(
        effective, graph.partitions, graph.earlier, graph.later, graph.overall, graph.broken, graph.broken_count,
        templates, datasets, [_placed(node, *position[node.key]) for node in graph.nodes],
        [_placed(stream, *position[stream.key]) for stream in streams], edges,
    )  # fmt: skip


def _placed(node: Node, layer: int, place: int) -> Node:
    return replace(node, layer=layer, place=place)


def _topic_edges(streams: Sequence[StreamNode]) -> list[TemplateEdge]:
    """Return an edge from each job to those that read its results."""
    return [
        TemplateEdge(source.key, target.key)
        for source in streams
        for target in streams
        if source is not target and set(source.results) & set(target.reads)
    ]
