"""Collapses a large template graph: the templates of one DAG, or of one stage, become one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from springline.airflow.lineage.strips import merge_strips
from springline.airflow.lineage.template_graph import TemplateEdge, TemplateGraph, TemplateNode

MAX_UNGROUPED = 80  # nodes that a reader can distinguish at a glance


class Grouping(StrEnum):
    """Which templates are collapsed into one node."""

    NONE = "none"
    STAGE = "stage"  # all outputs of one operation of a DAG
    DAG = "dag"


def suitable_grouping(nodes: Collection[TemplateNode]) -> Grouping:
    """Return the finest grouping with at most 80 nodes; if there is none, by DAG, unless that leaves one node."""
    for grouping in Grouping:
        if len({_group_of(node, grouping) for node in nodes}) <= MAX_UNGROUPED:
            return grouping
    return Grouping.DAG


def collapse(graph: TemplateGraph, grouping: Grouping, expanded: Collection[str] = ()) -> TemplateGraph:
    """Return the graph with one node a group, except for groups of one and those whose keys are in `expanded`.

    A key of a group contains a colon, which no path has; edges inside a group are dropped.
    """
    if grouping is Grouping.NONE:
        return graph
    members: dict[str, list[TemplateNode]] = {}
    for node in graph.nodes:
        members.setdefault(_group_of(node, grouping), []).append(node)
    nodes: list[TemplateNode] = []
    shown: dict[str, str] = {}
    for key, group in sorted(members.items()):
        if len(group) == 1 or key in expanded or "*" in expanded:
            nodes += [replace(node, group=key if len(group) > 1 else "") for node in group]
            shown |= {node.key: node.key for node in group}
        else:
            nodes.append(_merge(key, group, len(graph.partitions)))
            shown |= dict.fromkeys((node.key for node in group), key)
    edges = dict.fromkeys(
        TemplateEdge(shown[edge.source], shown[edge.target])
        for edge in graph.edges
        if shown[edge.source] != shown[edge.target]
    )
    return replace(graph, nodes=nodes, edges=list(edges))


def _group_of(node: TemplateNode, grouping: Grouping) -> str:
    if grouping is Grouping.NONE:
        return node.key
    if grouping is Grouping.DAG:
        return f"dag:{node.dag_id}"
    return f"stage:{node.dag_id}:{node.operation}"


def _merge(key: str, group: list[TemplateNode], columns: int) -> TemplateNode:
    dag_id, operation = (_common(getattr(node, name) for node in group) for name in ("dag_id", "operation"))
    newest = max((node.newest for node in group if node.newest), key=lambda cell: cell.timestamp, default=None)
    undated = [node.undated for node in group if node.undated]
    label = operation if key.startswith("stage:") else dag_id
    return TemplateNode(
        key=key, label=label or ("no operation" if key.startswith("stage:") else "outside of DAGs"), is_group=True,
        group=key, templates=len(group), operation=operation, dag_id=dag_id,
        task_id=_common(node.task_id for node in group),
        strip=merge_strips([node.strip for node in group], columns),
        undated=merge_strips(undated, 1) if undated else "",
        states=_sum_states(node.states for node in group),
        newest=newest,
        exposed_bytes=sum(node.exposed_bytes for node in group),
        unproven_bytes=sum(node.unproven_bytes for node in group),
        irrecoverable_bytes=sum(node.irrecoverable_bytes for node in group),
        stale=sum(node.stale for node in group),
        pinned=sum(node.pinned for node in group),
        checkpoints=sum(node.checkpoints for node in group),
    )  # fmt: skip


def _common(values: Iterable[str]) -> str:
    """Return the common value; empty if the values differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def _sum_states(states: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts, by status."""
    summed: Counter[str] = Counter()
    for each in states:
        summed.update(each)
    return dict(sorted(summed.items()))
