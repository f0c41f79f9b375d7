"""Two generations of a dataset side by side: columns, rows, size, digest, operation and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from springline.airflow.content.table_head import ContentColumn
from springline.persistence.model.dataset import Dataset


class Change(StrEnum):
    """What became of a column or a parameter from the earlier generation to the later one."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A column with its types, or a parameter with its values, before and after; empty where it is not there."""

    name: str
    change: Change
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ComparedGeneration:
    """What is compared of one generation; `columns_unknown`: why its columns are not known, empty if they are."""

    generation: int
    bytes: int
    rows: int | None
    operation: str
    version: str
    created_at: float
    compute_seconds: float | None
    columns_unknown: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two generations of a path; `same_digest`: whether they have the same rows, null if a digest is not known.

    `columns` is empty if those of either are not known.
    """

    path: str
    before: ComparedGeneration
    after: ComparedGeneration
    same_digest: bool | None
    columns: Sequence[ComparedValue]
    params: Sequence[ComparedValue]


Columns = Sequence[ContentColumn] | str  # or why they are not known


def compare(before: Dataset, after: Dataset, before_columns: Columns, after_columns: Columns) -> Comparison:
    """Compare two generations of a path, the earlier one first."""
    columns: Sequence[ComparedValue] = ()
    if not isinstance(before_columns, str) and not isinstance(after_columns, str):
        columns = _compare_values(_types(before_columns), _types(after_columns))
    digests = (before.digest, after.digest)
    return Comparison(
        path=after.ref.path,
        before=_side(before, before_columns),
        after=_side(after, after_columns),
        same_digest=digests[0] == digests[1] if all(digests) else None,
        columns=columns,
        params=_compare_values(_params(before), _params(after)),
    )


def _compare_values(before: Mapping[str, str], after: Mapping[str, str]) -> list[ComparedValue]:
    """Compare by name; in the order of the later one, what is no longer there last."""
    names = [*after, *(name for name in before if name not in after)]
    return [
        ComparedValue(name, _change_of(before.get(name), after.get(name)), before.get(name, ""), after.get(name, ""))
        for name in names
    ]


def _change_of(before: str | None, after: str | None) -> Change:
    if before == after:
        return Change.SAME
    if before is None:
        return Change.ADDED
    return Change.REMOVED if after is None else Change.CHANGED


def _types(columns: Sequence[ContentColumn]) -> dict[str, str]:
    return {column.name: f"{column.type}{'' if column.nullable else ', never null'}" for column in columns}


def _params(dataset: Dataset) -> dict[str, str]:
    return dict(dataset.call.params) if dataset.call else {}


def _side(dataset: Dataset, columns: Columns) -> ComparedGeneration:
    return ComparedGeneration(
        generation=dataset.ref.generation,
        bytes=dataset.bytes,
        rows=dataset.rows,
        operation=dataset.call.name if dataset.call else "",
        version=dataset.call.version if dataset.call else "",
        created_at=dataset.created_at,
        compute_seconds=dataset.compute_seconds,
        columns_unknown=columns if isinstance(columns, str) else "",
    )
