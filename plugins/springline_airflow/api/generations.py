"""Generations over HTTP: a list of the newest, and of one its columns, rows, neighbours and differences.

The routes of one generation name it as everything else does, `path@generation`. No path contains an `@`, so none of
them is the address of another dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from springline.airflow.api.access import ReadAccess, ReadAccessDep
from springline.airflow.api.datasets import MOST_GENERATIONS, Name, PlatformDep
from springline.airflow.content.errors import NoCopyError, UnreadableContentError
from springline.airflow.content.generation_content import GenerationRows, GenerationSchema, read_rows, read_schema
from springline.airflow.lineage.comparison import Columns, Comparison, compare
from springline.airflow.lineage.neighbourhood import Neighbourhood, load_neighbourhood
from springline.airflow.lineage.statuses import statuses_of
from springline.persistence.errors import StorageUnavailableError, UnknownDatasetError
from springline.persistence.explain import find_dataset
from springline.persistence.model.dataset import Dataset, DatasetStatus, Origin, Phase
from springline.persistence.platform import Platform

_MOST_LISTED = 500
_LISTED = 50  # unless more are requested
_CANDIDATES = 2000  # that are examined for a status that depends on the lineage
_MOST_ROWS = 100
_MOST_STEPS = 4

router = APIRouter(tags=["datasets"])


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """The newest generation of a path."""

    path: str
    generation: int
    status: str
    bytes: int
    rows: int | None
    created_at: float
    operation: str
    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class DatasetListing:
    """Datasets that you may read, the newest first; `is_complete`: none was left out because of the limit."""

    datasets: Sequence[ListedDataset]
    is_complete: bool


@router.get("/datasets")
def list_datasets(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    search: Annotated[Name, Query(description="Only paths that contain this text, in any case")] = "",
    prefix: Annotated[Name, Query(description="Only paths with this prefix")] = "",
    dag_id: Name = "",
    status: Annotated[DatasetStatus | None, Query(description="Only datasets in this state")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_LISTED, description="Maximum number of datasets")] = _LISTED,
) -> DatasetListing:
    """Return the newest generation of each path that you may read, the newest first."""
    catalog = platform.catalog
    most = limit + 1 if status is None else _CANDIDATES
    candidates = catalog.find(
        search=search,
        prefix=prefix,
        origin=Origin(dag_id),
        status=status,
        live=status not in (DatasetStatus.RETIRED, DatasetStatus.ABANDONED),
        superseded=None if status is DatasetStatus.RETIRED else False,
        dag_ids=read_access.readable_dags(catalog.dag_ids()),
        limit=most,
    )
    statuses = statuses_of(catalog, candidates)
    matching = [each for each in candidates if status in (None, statuses[each.ref])]
    is_complete = len(matching) <= limit and (status is None or len(candidates) < most)
    return DatasetListing([_listed(each, statuses[each.ref]) for each in matching[:limit]], is_complete)


def _listed(dataset: Dataset, status: DatasetStatus) -> ListedDataset:
    return ListedDataset(
        *dataset.ref, status.value, dataset.bytes, dataset.rows, dataset.created_at,
        dataset.call.name if dataset.call else "", dataset.origin.dag_id, dataset.origin.run_id,
    )  # fmt: skip


def _readable_generation(
    path: str,
    generation: Annotated[int, Path(ge=1, le=MOST_GENERATIONS)],
    read_access: ReadAccessDep,
    platform: PlatformDep,
) -> Dataset:
    """Return the generation that the address names; raises `HTTPException` (403) if the user may not read it."""
    dataset = find_dataset(platform, path, generation)
    read_access.require_read(dataset)
    return dataset


GenerationDep = Annotated[Dataset, Depends(_readable_generation)]


@router.get("/datasets/{path:path}@{generation}/schema")
def schema(dataset: GenerationDep, platform: PlatformDep) -> GenerationSchema:
    """Return the columns of a generation, from the metadata or the first rows of its first file."""
    return read_schema(platform, dataset)


@router.get("/datasets/{path:path}@{generation}/rows")
def rows(
    dataset: GenerationDep,
    platform: PlatformDep,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS, description="Maximum number of rows")] = 20,
) -> GenerationRows:
    """Return the first rows of a generation as texts, from its copy in the cache, else from the under-store."""
    return read_rows(platform, dataset, limit)


@router.get("/datasets/{path:path}@{generation}/lineage")
def neighbours(
    dataset: GenerationDep,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    steps: Annotated[int, Query(ge=1, le=_MOST_STEPS, description="How far from the generation")] = 2,
) -> Neighbourhood:
    """Return what a generation was made from and what was made from it, laid out in layers."""
    return load_neighbourhood(platform.catalog, dataset, steps, read_access.may_read)


@router.get("/datasets/{path:path}@{generation}/comparison")
def comparison(
    dataset: GenerationDep,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    other: Annotated[
        int | None, Query(ge=1, le=MOST_GENERATIONS, description="Generation to compare with; default: the one before")
    ] = None,
) -> Comparison:
    """Compare a generation with another one of its path: columns, rows, size, digest, operation and parameters."""
    if other is None:
        other_dataset = _generation_before(dataset, read_access, platform)
    else:
        other_dataset = find_dataset(platform, dataset.ref.path, other)
        read_access.require_read(other_dataset)
    before, after = sorted((other_dataset, dataset), key=lambda each: each.ref.generation)
    return compare(before, after, _columns_of(platform, before), _columns_of(platform, after))


def _generation_before(dataset: Dataset, read_access: ReadAccess, platform: Platform) -> Dataset:
    """Return the newest earlier generation that was committed and that the user may read."""
    for each in platform.catalog.find(path=dataset.ref.path):
        was_committed = each.phase in (Phase.COMMITTED, Phase.RETIRED)
        if each.ref.generation < dataset.ref.generation and was_committed and read_access.may_read(each):
            return each
    raise UnknownDatasetError(f"{dataset.ref} has no earlier generation that you may read; compare it with a later one")


def _columns_of(platform: Platform, dataset: Dataset) -> Columns:
    try:
        return read_schema(platform, dataset).columns
    except (NoCopyError, UnreadableContentError, StorageUnavailableError) as error:
        return str(error)
