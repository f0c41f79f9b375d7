"""A graph of code and values, with a digest of what it contains, independent of how the objects are shared.

The digest is found by colour refinement (Weisfeiler and Leman, 1968): the colour of a node is the hash of its own text
and of the colours of its children, computed again until no two nodes of equal colour differ in their children. So
circles of references end, and equal values count alike whether they are one object or several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NodeRef:
    """A reference to a node, by its key."""

    key: Hashable


Term = str | NodeRef  # a value: its text, or the node that describes it


@dataclass
class Node:
    """Code or a value, described by texts and other nodes, whose order counts unless `is_set`."""

    terms: list[Term] = field(default_factory=list)
    is_set: bool = False


def hash_text(*texts: str, digits: int = 32) -> str:
    """Return the hash of a sequence of texts."""
    digest = hashlib.blake2b(digest_size=digits // 2)
    for text in texts:
        data = text.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def graph_digest(nodes: Mapping[Hashable, Node], root: Term) -> str:
    """Return the digest, 16 hexadecimal digits, of what can be reached from `root`."""
    reached = _reachable(nodes, root)
    colours, classes = dict.fromkeys(reached, ""), 1
    while True:
        refined = {key: _colour(nodes[key], colours, colours[key]) for key in reached}
        is_stable = len(set(refined.values())) <= classes
        colours, classes = refined, len(set(refined.values()))
        if is_stable:
            start = root if isinstance(root, str) else colours[root.key]
            return hash_text(start, *sorted(set(colours.values())), digits=16)


def _colour(node: Node, colours: Mapping[Hashable, str], before: str) -> str:
    texts = [f"text {each}" if isinstance(each, str) else f"node {colours[each.key]}" for each in node.terms]
    return hash_text(before, str(node.is_set), *(sorted(texts) if node.is_set else texts))


def _reachable(nodes: Mapping[Hashable, Node], root: Term) -> set[Hashable]:
    reached, pending = set[Hashable](), [root]
    while pending:
        term = pending.pop()
        if isinstance(term, NodeRef) and term.key not in reached:
            reached.add(term.key)
            pending += nodes[term.key].terms
    return reached
