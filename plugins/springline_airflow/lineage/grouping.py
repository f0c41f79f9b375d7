"""Folds a large lineage graph: related datasets are collapsed into one node."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from springline.airflow.lineage.graph import Edge, Graph, Node, NodeKind, sum_counts

MOST_UNFOLDED = 60  # datasets that are still readable individually


class Fold(StrEnum):
    """Which datasets are collapsed into one node."""

    NONE = "none"
    OPERATION = "operation"  # all outputs of one operation: the stages of a workflow, over all its runs
    RUN = "run"  # all outputs of one DAG run


def suitable_fold(graph: Graph) -> Fold:
    """Return the best fold of a graph: none while it is small, otherwise the one with fewer nodes."""
    if len(graph.nodes) <= MOST_UNFOLDED:
        return Fold.NONE
    return min((Fold.OPERATION, Fold.RUN), key=lambda fold: len({_group(node, fold) for node in graph.nodes}))


def fold_nodes(graph: Graph, fold: Fold) -> Graph:
    """Return the graph with one node for each operation or DAG run; edges inside a fold are dropped.

    Dataset paths contain no colon, so the key of a fold is never that of a dataset.
    """
    if fold is Fold.NONE:
        return graph
    group = {node.key: _group(node, fold) for node in graph.nodes}
    members: dict[str, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(group[node.key], []).append(node)
    stale: dict[tuple[str, str], bool] = {}
    for edge in graph.edges:
        between = group[edge.source], group[edge.target]
        if between[0] != between[1]:
            stale[between] = stale.get(between, False) or edge.stale
    nodes = tuple(_merge(key, nodes, group, fold) for key, nodes in sorted(members.items()))
    return Graph(nodes, tuple(Edge(*between, outdated) for between, outdated in stale.items()))


def _group(node: Node, fold: Fold) -> str:
    if fold is Fold.OPERATION:
        return f"operation:{node.operation}"
    return f"run:{node.dag_id}:{node.run_id}"


def _merge(key: str, nodes: list[Node], group: dict[str, str], fold: Fold) -> Node:
    first = nodes[0]
    needs = dict.fromkeys(group[need] for node in nodes for need in node.needs if need in group)
    label = first.operation if fold is Fold.OPERATION else first.run_id
    return Node(
        key=key,
        kind=NodeKind.FOLD,
        label=label,
        states=sum_counts(node.states for node in nodes),
        methods=sum_counts(node.methods for node in nodes),
        recovery_kinds=sum_counts(node.recovery_kinds for node in nodes),
        irrecoverable_reasons=tuple(dict.fromkeys(reason for node in nodes for reason in node.irrecoverable_reasons))[
            :3
        ],
        needs=tuple(need for need in needs if need != key),
        datasets=sum(node.datasets for node in nodes),
        bytes=sum(node.bytes for node in nodes),
        older=(),
        stale=sum(node.stale for node in nodes),
        checkpoints=sum(node.checkpoints for node in nodes),
        pinned=sum(node.pinned for node in nodes),
        operation=_common_value(node.operation for node in nodes),
        dag_id=_common_value(node.dag_id for node in nodes),
        run_id=_common_value(node.run_id for node in nodes),
        task_id=_common_value(node.task_id for node in nodes),
    )


def _common_value(values: Iterable[str]) -> str:
    """Return the common value; empty if the values differ."""
    distinct_values = set(values)
    return distinct_values.pop() if len(distinct_values) == 1 else ""
