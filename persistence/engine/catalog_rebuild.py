"""Rebuilds a lost catalog from the manifests of the persisted copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert

from springline.persistence.backends.copy_layout import CopyLocation, cache_copy_location, parse_location, read_copy
from springline.persistence.backends.spec import UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.schema import commit_counter, generation, source
from springline.persistence.errors import PersistenceError, StorageUnavailableError, UsageError
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref, UnderStoreState
from springline.persistence.model.manifest import File, Manifest
from springline.persistence.model.transitions import GenerationState
from springline.persistence.text.formatting import format_list

_PERSISTED_STATE = GenerationState(Phase.COMMITTED, CacheState.EVICTED, UnderStoreState.PRESENT)
_RETIRED_STATE = GenerationState(Phase.RETIRED, CacheState.EVICTED, UnderStoreState.NONE)


@dataclass
class CatalogRebuildReport:
    """Result of a rebuild: the generations recorded from manifests, missing sources, and copies that cannot be used."""

    recorded_refs: list[Ref] = field(default_factory=list)
    without_source: dict[Ref, list[str]] = field(default_factory=dict)
    unusable: list[str] = field(default_factory=list)


def rebuild(catalog: Catalog, under: UnderStore) -> CatalogRebuildReport:
    """Fill an empty catalog from the manifests in the under-store; raises `UsageError` if it is not empty.

    A source that was not persisted is recorded as retired, so that the lineage names it but does not read it.
    """
    if catalog.find(limit=1):
        raise UsageError("the catalog is not empty; only an empty catalog can be rebuilt")
    report = CatalogRebuildReport()
    under.mark_root()
    copies = _newest_copies(under, report)
    with catalog.write_transaction() as connection:
        _record_all(catalog, connection, copies, report)
    return report


def _newest_copies(under: UnderStore, report: CatalogRebuildReport) -> list[tuple[CopyLocation, Dataset]]:
    """Return one copy of each generation, the one with the newest lease, in order of creation."""
    copies: dict[Ref, tuple[CopyLocation, Dataset]] = {}
    for location in under.copies():
        place = parse_location(location)
        try:
            dataset, manifest = read_copy(under, location)
        except FileNotFoundError:
            continue  # it was never complete
        except StorageUnavailableError:
            raise
        except PersistenceError as error:
            report.unusable.append(str(error))
            continue
        if place is None or place.ref != dataset.ref:
            report.unusable.append(f"{location} holds a copy of {dataset.ref}, which belongs elsewhere")
        elif problem := _find_missing(under, location, manifest):
            report.unusable.append(problem)
        elif dataset.ref not in copies or copies[dataset.ref][0].lease < place.lease:
            copies[dataset.ref] = (place, dataset)
    return sorted(copies.values(), key=lambda pair: (pair[1].created_at, pair[1].ref))


def _find_missing(under: UnderStore, location: str, manifest: Manifest) -> str:
    """Return which of its files a published copy lacks; empty if all are there with their sizes."""
    try:
        files = set(under.files(location))
    except FileNotFoundError:
        files = set()
    missing = [file.name for file in manifest.files if File(file.name, file.bytes) not in files]
    return f"{location} lacks {format_list(missing)}, which its manifest names" if missing else ""


def _record_all(
    catalog: Catalog,
    connection: Connection,
    copies: Sequence[tuple[CopyLocation, Dataset]],
    report: CatalogRebuildReport,
) -> None:
    newest = {dataset.ref.path: dataset.ref for _, dataset in copies}
    keys_by_ref: dict[Ref, int] = {}
    for number, (place, dataset) in enumerate(copies, start=1):
        columns = _persisted_columns(dataset, place, number, superseded=newest[dataset.ref.path] != dataset.ref)
        reason = f"from {place.location}"
        keys_by_ref[dataset.ref] = _insert(catalog, connection, dataset, _PERSISTED_STATE, reason, columns)
        report.recorded_refs.append(dataset.ref)
    persisted_refs = set(keys_by_ref)
    for dataset in [dataset for _, dataset in copies]:
        if missing := [ref for ref in dataset.sources if ref not in persisted_refs]:
            report.without_source[dataset.ref] = [str(ref) for ref in missing]
        for position, ref in enumerate(dataset.sources):
            if ref not in keys_by_ref:
                placeholder = Dataset(ref, created_at=dataset.created_at, persist_requested=False)
                keys_by_ref[ref] = _insert(
                    catalog, connection, placeholder, _RETIRED_STATE, "it is not persisted", {"superseded": True}
                )
            values = {"generation_id": keys_by_ref[dataset.ref], "position": position, "source_id": keys_by_ref[ref]}
            connection.execute(insert(source).values(**values))
    if copies:
        connection.execute(insert(commit_counter).values(id=1, number=len(copies)))


def _persisted_columns(dataset: Dataset, place: CopyLocation, number: int, *, superseded: bool) -> dict[str, Any]:
    call = dataset.call
    return {
        "rows": dataset.rows, "operation": call.name if call else None, "version": call.version if call else None,
        "params": dict(call.params) if call else None, "compute_seconds": dataset.compute_seconds,
        "report": dict(dataset.report) if dataset.report else None, "committed_at": dataset.created_at,
        "commit_number": number, "persisted_at": dataset.created_at, "cache_location": cache_copy_location(dataset.ref),
        "under_location": place.location, "under_checksum": dataset.under_checksum, "lease_number": place.lease,
        "superseded": superseded,
    }  # fmt: skip


def _insert(
    catalog: Catalog,
    connection: Connection,
    dataset: Dataset,
    state: GenerationState,
    reason: str,
    columns: dict[str, Any],
) -> int:
    values = {
        "path": dataset.ref.path, "generation": dataset.ref.generation, "phase": state.phase.value,
        "cache": state.cache.value, "under": state.under.value, "bytes": dataset.bytes, "digest": dataset.digest,
        "strategy": dataset.strategy.value, "persist_requested": dataset.persist_requested,
        "checkpoint": dataset.checkpoint,
        "dag_id": dataset.origin.dag_id, "run_id": dataset.origin.run_id, "task_id": dataset.origin.task_id,
        "created_at": dataset.created_at,
    }  # fmt: skip
    added = connection.execute(insert(generation).values(**values, **columns))
    identity = int(added.inserted_primary_key[0])  # type: ignore[index]
    catalog.log_event(connection, identity, "rebuilt", state, reason)
    return identity
