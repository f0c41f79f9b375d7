"""Rebuilds a lost catalog from the sidecars beside the persisted copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert

from springline.persistence.backends.copy_layout import Place, cache_place, place_of
from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.schema import commit_counter, generation, source
from springline.persistence.errors import PersistenceError, UsageError
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref, Under
from springline.persistence.model.transitions import State

_KEPT = State(Phase.COMMITTED, Cache.EVICTED, Under.PRESENT)
_GONE = State(Phase.RETIRED, Cache.EVICTED, Under.NONE)


@dataclass
class Rebuilt:
    """What was read back from the sidecars."""

    found: list[Ref] = field(default_factory=list)
    without_source: dict[Ref, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


def rebuild(catalog: Catalog, under: Backend) -> Rebuilt:
    """Fill an empty catalog from the sidecars in the under-store; raises `PersistenceError` if it is not empty.

    A source that is not persisted is recorded as retired: so lineage names it, and knows that it is gone.
    """
    if catalog.find(limit=1):
        raise UsageError("the catalog is not empty; rebuild fills an empty one only")
    report = Rebuilt()
    under.mark_root()
    copies = _newest_copies(under, report)
    with catalog.writing() as connection:
        _record_all(catalog, connection, copies, report)
    return report


def _newest_copies(under: Backend, report: Rebuilt) -> list[tuple[Place, Dataset]]:
    """One copy of each generation, that of the newest lease, in the order in which the generations were made."""
    copies: dict[Ref, tuple[Place, Dataset]] = {}
    for location in under.locations(sidecar.NAME):
        place = place_of(location)
        try:
            told = sidecar.read(under.read_small(location, sidecar.NAME), where=location)
        except PersistenceError as error:
            report.unreadable.append(str(error))
            continue
        if place is None or place.ref != told.ref:
            report.unreadable.append(f"{location} holds a copy of {told.ref}, whose place is elsewhere")
        elif told.ref not in copies or copies[told.ref][0].lease < place.lease:
            copies[told.ref] = (place, told)
    return sorted(copies.values(), key=lambda pair: (pair[1].created_at, pair[1].ref))


def _record_all(
    catalog: Catalog, connection: Connection, copies: Sequence[tuple[Place, Dataset]], report: Rebuilt
) -> None:
    newest = {told.ref.path: told.ref for _, told in copies}
    known: dict[Ref, int] = {}
    for number, (place, told) in enumerate(copies, start=1):
        columns = _persisted(told, place, number, superseded=newest[told.ref.path] != told.ref)
        known[told.ref] = _insert(catalog, connection, told, _KEPT, f"from {place.location}", columns)
        report.found.append(told.ref)
    found = set(known)
    for told in [told for _, told in copies]:
        if missing := [ref for ref in told.sources if ref not in found]:
            report.without_source[told.ref] = [str(ref) for ref in missing]
        for position, ref in enumerate(told.sources):
            if ref not in known:
                gone = Dataset(ref, created_at=told.created_at, wanted=False)
                known[ref] = _insert(catalog, connection, gone, _GONE, "it was not persisted", {"superseded": True})
            values = {"generation_id": known[told.ref], "position": position, "source_id": known[ref]}
            connection.execute(insert(source).values(**values))
    if copies:
        connection.execute(insert(commit_counter).values(id=1, number=len(copies)))


def _persisted(told: Dataset, place: Place, number: int, *, superseded: bool) -> dict[str, Any]:
    call = told.call
    return {
        "rows": told.rows, "operation": call.name if call else None, "version": call.version if call else None,
        "params": dict(call.params) if call else None, "made_seconds": told.made_seconds,
        "report": dict(told.report) if told.report else None, "committed_at": told.created_at,
        "commit_number": number, "persisted_at": told.created_at, "cache_location": cache_place(told.ref),
        "under_location": place.location, "under_checksum": told.under_checksum, "lease_number": place.lease,
        "superseded": superseded,
    }  # fmt: skip


def _insert(
    catalog: Catalog, connection: Connection, told: Dataset, state: State, why: str, columns: dict[str, Any]
) -> int:
    values = {
        "path": told.ref.path, "generation": told.ref.generation, "phase": state.phase.value,
        "cache": state.cache.value, "under": state.under.value, "bytes": told.bytes, "digest": told.digest,
        "strategy": told.strategy.value, "wanted": told.wanted, "checkpoint": told.checkpoint,
        "dag_id": told.origin.dag_id, "run_id": told.origin.run_id, "task_id": told.origin.task_id,
        "created_at": told.created_at,
    }  # fmt: skip
    added = connection.execute(insert(generation).values(**values, **columns))
    identity = int(added.inserted_primary_key[0])  # type: ignore[index]
    catalog.log(connection, identity, "rebuilt", state, why)
    return identity
