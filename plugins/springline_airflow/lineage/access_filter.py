"""Takes the names that somebody may not read out of a lineage, so that nothing said of it tells them, and of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from springline.airflow.lineage.graph import Graph
from springline.persistence.explain import Explanation
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.model.lineage import Lineage

_HIDDEN = "hidden:"  # no dataset's path holds a colon
# What ends the name of a generation (`a/b@3`), and of the place of a copy (`a/b/@3-1`, `a/b/.@3-1`), in any text.
_NUMBER = re.compile(r"(?:/\.?)?@(\d{1,9})(?!\d)")
_NO_PATH = re.compile(r"[\x00-\x1f\\@:*?\[\]{}]")
_BEGINNING = re.compile(r"(?<!\w)(?=[^\s/])")  # of a path, in what stands before its number
_LONGEST = 1000


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


def mentioned(texts: Iterable[str]) -> set[Ref]:
    """Every generation that one of `texts` may name: a path may hold blanks, so it may begin at any word before."""
    refs = set()
    for text in texts:
        for number in _NUMBER.finditer(text):
            before = _NO_PATH.split(text[max(number.start() - _LONGEST, 0) : number.start()])[-1]
            refs |= {Ref(before[begin.start() :], int(number[1])) for begin in _BEGINNING.finditer(before)}
    return refs


def without_names(text: str, hidden: Iterable[Ref]) -> str:
    """`text` without the paths of the generations in `hidden`."""
    for ref in sorted(hidden, key=lambda ref: len(ref.path), reverse=True):  # one path may end as another
        text = re.sub(rf"(?<!\w){re.escape(ref.path)}(?=(/\.?)?@{ref.generation}(?!\d))", "hidden", text)
    return text


def texts_of(told: Explanation) -> list[str]:
    """What was noted of a generation in free words: its last error, and why it changed."""
    return [told.dataset.error, *(moment.why for moment in told.moments)]


def with_texts(told: Explanation, changed: Callable[[str], str]) -> Explanation:
    """The same explanation, what `texts_of` gives being changed."""
    moments = tuple(replace(moment, why=changed(moment.why)) for moment in told.moments)
    return replace(told, dataset=replace(told.dataset, error=changed(told.dataset.error)), moments=moments)


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
