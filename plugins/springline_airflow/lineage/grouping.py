"""Folds a picture that has too much in it for a person: what belongs together becomes one node."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from springline.airflow.lineage.graph import Edge, Graph, Kind, Node, total

MOST_UNFOLDED = 60  # datasets that are still readable one by one


class Fold(StrEnum):
    """What becomes one node."""

    NONE = "none"
    OPERATION = "operation"  # everything that one operation made: the stages of a workflow, over all its runs
    RUN = "run"  # everything that one DAG run made


def suitable(graph: Graph) -> Fold:
    """How a picture is best folded: not at all while it is small, else by what gives fewer nodes."""
    if len(graph.nodes) <= MOST_UNFOLDED:
        return Fold.NONE
    return min((Fold.OPERATION, Fold.RUN), key=lambda fold: len({_group(node, fold) for node in graph.nodes}))


def folded(graph: Graph, fold: Fold) -> Graph:
    """The picture with one node for each operation or DAG run; edges inside of a fold go with it.

    Dataset paths hold no colon, so the key of a fold is that of no dataset.
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
    nodes = tuple(_merged(key, nodes, group, fold) for key, nodes in sorted(members.items()))
    return Graph(nodes, tuple(Edge(*between, outdated) for between, outdated in stale.items()))


def _group(node: Node, fold: Fold) -> str:
    if fold is Fold.OPERATION:
        return f"operation:{node.operation}"
    return f"run:{node.dag_id}:{node.run_id}"


def _merged(key: str, nodes: list[Node], group: dict[str, str], fold: Fold) -> Node:
    first = nodes[0]
    needs = dict.fromkeys(group[need] for node in nodes for need in node.needs if need in group)
    label = first.operation if fold is Fold.OPERATION else first.run_id
    return Node(
        key=key,
        kind=Kind.FOLD,
        label=label,
        states=total(node.states for node in nodes),
        methods=total(node.methods for node in nodes),
        returns=total(node.returns for node in nodes),
        why_gone=tuple(dict.fromkeys(why for node in nodes for why in node.why_gone))[:3],
        needs=tuple(need for need in needs if need != key),
        datasets=sum(node.datasets for node in nodes),
        bytes=sum(node.bytes for node in nodes),
        older=(),
        stale=sum(node.stale for node in nodes),
        checkpoints=sum(node.checkpoints for node in nodes),
        pinned=sum(node.pinned for node in nodes),
        operation=_same(node.operation for node in nodes),
        dag_id=_same(node.dag_id for node in nodes),
        run_id=_same(node.run_id for node in nodes),
        task_id=_same(node.task_id for node in nodes),
    )


def _same(values: Iterable[str]) -> str:
    """What all of them are; empty where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""
