"""Removes the names of datasets that a user may not read from a lineage and from texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from springline.persistence.explain import Explanation
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.model.lineage import Lineage

_HIDDEN = "hidden:"  # no dataset path contains a colon
# The suffix of the name of a generation (`a/b@3`) or of a copy's location (`a/b/@3-1_x`), in any text.
_NUMBER = re.compile(r"/?@(\d{1,9})(?!\d)")
_NO_PATH = re.compile(r"[\x00-\x1f\\@:*?\[\]{}]")
_BEGINNING = re.compile(r"(?<!\w)(?=[^\s/])")  # of a path, in the text before its number
_LONGEST = 1000


def redact_hidden(lineage: Lineage, may_read: Callable[[Dataset], bool]) -> Lineage:
    """Return the lineage with an alias for each dataset that `may_read` refuses; its structure is unchanged.

    A source that is not in the lineage is not known to be readable, so it is hidden too. Operations keep their names:
    they are the platform's code, not a DAG's.
    """
    by_ref = lineage.datasets
    named_refs = {source for dataset in by_ref.values() for source in dataset.sources} | set(by_ref)
    hidden = [ref for ref in named_refs if ref not in by_ref or not may_read(by_ref[ref])]
    if not hidden:
        return lineage
    number = {path: i for i, path in enumerate(sorted({ref.path for ref in hidden}), start=1)}
    aliases = {ref: Ref(f"{_HIDDEN}{number[ref.path]}", ref.generation) for ref in hidden}
    datasets = (
        replace(
            dataset,
            ref=aliases.get(dataset.ref, dataset.ref),
            sources=tuple(aliases.get(source, source) for source in dataset.sources),
        )
        for dataset in by_ref.values()
    )
    return replace(lineage, datasets={dataset.ref: dataset for dataset in datasets})


def is_hidden(path: str) -> bool:
    """Whether a path is an alias of a hidden one."""
    return path.startswith(_HIDDEN)


def mentioned_refs(texts: Iterable[str]) -> set[Ref]:
    """Return every generation that `texts` may name: a path may contain blanks, so it may begin at any earlier word."""
    refs = set()
    for text in texts:
        for number in _NUMBER.finditer(text):
            before = _NO_PATH.split(text[max(number.start() - _LONGEST, 0) : number.start()])[-1]
            refs |= {Ref(before[begin.start() :], int(number[1])) for begin in _BEGINNING.finditer(before)}
    return refs


def remove_names(text: str, hidden: Iterable[Ref]) -> str:
    """Return `text` without the paths of the generations in `hidden`."""
    for ref in sorted(hidden, key=lambda ref: len(ref.path), reverse=True):  # one path may be the end of another
        text = re.sub(rf"(?<!\w){re.escape(ref.path)}(?=/?@{ref.generation}(?!\d))", "hidden", text)
    return text


def texts_of(explanation: Explanation) -> list[str]:
    """Return the free texts of an explanation: its last error, and the reasons of its changes."""
    return [explanation.dataset.error, *(moment.reason for moment in explanation.moments)]


def replace_texts(explanation: Explanation, change_text: Callable[[str], str]) -> Explanation:
    """Return the explanation with `change_text` applied to the texts that `texts_of` returns."""
    moments = tuple(replace(moment, reason=change_text(moment.reason)) for moment in explanation.moments)
    return replace(
        explanation, dataset=replace(explanation.dataset, error=change_text(explanation.dataset.error)), moments=moments
    )
