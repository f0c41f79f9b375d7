"""The whole picture of the lineage: templates, collapsed into groups where there are many, in layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

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
class LineageOverview:
    """The templates that you may read; `partitions` names the columns of all strips, the oldest first.

    `earlier`, `later`: how many partitions are left out before and after. `overall`: the worst state of each partition
    over all templates. `broken`: partitions with lost generations, the newest first, at most 100 of `broken_count`.
    `templates` and `datasets` count what the filters match, collapsed into groups or not.
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
    edges: Sequence[TemplateEdge]


def build_overview(
    index: LiveIndex,
    wanted: LineageFilter,
    may_read_dag: Callable[[str], bool],
    grouping: Grouping | None = None,
    expanded: Collection[str] = (),
) -> LineageOverview:
    """Return the picture of what `wanted` and `may_read_dag` accept.

    `grouping`: by the number of templates if none is given; `expanded`: the keys of groups that are not collapsed.
    """
    graph = build_template_graph(index, wanted, may_read_dag)
    templates, datasets = len(graph.nodes), sum(sum(node.states.values()) for node in graph.nodes)
    effective = grouping or suitable_grouping(graph.nodes)
    graph = collapse(graph, effective, expanded)
    number = {node.key: i for i, node in enumerate(graph.nodes)}
    layers, places = arrange(len(graph.nodes), [(number[edge.source], number[edge.target]) for edge in graph.edges])
    nodes = [
        replace(node, layer=layer, place=place) for node, layer, place in zip(graph.nodes, layers, places, strict=True)
    ]
    return LineageOverview(
        effective, graph.partitions, graph.earlier, graph.later, graph.overall, graph.broken, graph.broken_count,
        templates, datasets, nodes, graph.edges,
    )  # fmt: skip
