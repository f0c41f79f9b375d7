"""The generations around one: its sources and dependents up to a few steps, as far as a user may read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from springline.airflow.lineage.graph import Edge, Node, draw
from springline.airflow.lineage.layers import lay_out
from springline.airflow.lineage.statuses import statuses_of
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.model.dataset import Dataset, Phase, Ref

_MOST_AT_ONE_STEP = 12  # generations that are drawn of each step; the others are counted
_MOST_COUNTED = 200  # dependents of one generation
_SHOWN_PHASES = (Phase.OPEN, Phase.COMMITTED)


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The lineage around a generation, laid out in layers with sources on the left.

    `hidden_sources`, `hidden_dependents`: how many more there are that you may not read; what is beyond them is not
    followed. `more_sources`, `more_dependents`: how many are left out of the picture.
    """

    path: str
    generation: int
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    hidden_sources: int
    hidden_dependents: int
    more_sources: int
    more_dependents: int


@dataclass
class _Side:
    """One direction of the walk: what is drawn, and the numbers of what is not."""

    drawn: dict[Ref, tuple[int, Dataset]]
    hidden: int = 0
    more: int = 0


def load_neighbourhood(
    catalog: Catalog, dataset: Dataset, steps: int, may_read: Callable[[Dataset], bool]
) -> Neighbourhood:
    """Return the sources and dependents of a generation up to so many steps; retired ones are sources too."""
    upstream = _walk(dataset, steps, -1, lambda each: catalog.find_existing(each.sources), may_read)
    downstream = _walk(dataset, steps, 1, lambda each: _dependents(catalog, each), may_read)
    drawn = {**downstream.drawn, **upstream.drawn, dataset.ref: (0, dataset)}
    datasets = [each for _, each in drawn.values()]
    graph = lay_out(draw({ref: step for ref, (step, _) in drawn.items()}, datasets, statuses_of(catalog, datasets)))
    return Neighbourhood(
        *dataset.ref, graph.nodes, graph.edges, upstream.hidden, downstream.hidden, upstream.more, downstream.more
    )


def _walk(
    start: Dataset,
    steps: int,
    direction: int,
    neighbours: Callable[[Dataset], Sequence[Dataset]],
    may_read: Callable[[Dataset], bool],
) -> _Side:
    side = _Side({})
    frontier = [start]
    visited = {start.ref}
    for step in range(1, steps + 1):
        nearest = {each.ref: each for dataset in frontier for each in neighbours(dataset) if each.ref not in visited}
        visited |= set(nearest)
        readable = [each for _, each in sorted(nearest.items()) if may_read(each)]
        frontier = readable[:_MOST_AT_ONE_STEP]
        side.hidden += len(nearest) - len(readable)
        side.more += len(readable) - len(frontier)
        side.drawn |= {each.ref: (step * direction, each) for each in frontier}
    return side


def _dependents(catalog: Catalog, dataset: Dataset) -> list[Dataset]:
    """Return what was made from a generation and is neither retired nor abandoned."""
    return [each for each in catalog.find_children(dataset.ref, _MOST_COUNTED) if each.phase in _SHOWN_PHASES]
