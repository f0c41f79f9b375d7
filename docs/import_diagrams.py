"""Draws the direction of imports inside a package, from the imports themselves; cycles are errors."""

from __future__ import annotations

from functools import cache

import grimp
import rustworkx


def import_diagram(name: str) -> str:
    """Return a Mermaid diagram of the parts of a package, `springline` or one below it such as `persistence`.

    An arrow means that a part imports another one. Arrows that follow from others are left out. Raises `DAGHasCycle` of
    rustworkx if parts import each other.
    """
    package = "springline" if name == "springline" else f"springline.{name.replace('-', '.')}"
    arrows = rustworkx.PyDiGraph()
    parts = sorted(_imports().find_children(package))
    places = {part: arrows.add_node(part.rpartition(".")[2]) for part in parts}
    for part in parts:
        for other in parts:
            if part != other and _imports().direct_import_exists(importer=part, imported=other, as_packages=True):
                arrows.add_edge(places[part], places[other], None)
    reduced, _ = rustworkx.transitive_reduction(arrows)
    # A separate id for each, since some words, such as `graph`, are reserved in Mermaid.
    lines = [
        f"    p{source}[{reduced[source]}] --> p{target}[{reduced[target]}]"
        for source, target in sorted(reduced.edge_list(), key=lambda edge: (reduced[edge[0]], reduced[edge[1]]))
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


@cache
def _imports() -> grimp.ImportGraph:
    return grimp.build_graph("springline", cache_dir=None)
