"""Recorded lineages: what was made when, of what size, from what; exported out of a catalog, kept as JSON.

The form of the files (times in seconds since the first commit, sizes in bytes):

    {"about": "where it comes from",
     "operations": [{"name", "version", "idempotent", "reads": [names of operations whose output it reads]}],
     "datasets": [{"path", "generation", "committed_at", "seconds" (what its operation took), "bytes",
                   "operation", "version" (null where none is recorded), "sources": ["path@generation"],
                   "read_at": [when it was read], "persist_requested", "checkpoint"}]}

Datasets are in the order in which they were committed, so that sources come before what was made of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springline.persistence.model.dataset import Call, Dataset, Operation, Phase, Ref
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """One recorded generation."""

    ref: Ref
    committed_at: float
    seconds: float
    bytes: int
    call: Call | None
    sources: tuple[Ref, ...]
    read_at: tuple[float, ...]
    persist_requested: bool
    checkpoint: bool

    @property
    def started_at(self) -> float:
        """When its operation began."""
        return self.committed_at - self.seconds


@dataclass(frozen=True)
class Recording:
    """A whole recorded lineage, in order of commit."""

    about: str
    operations: tuple[Operation, ...]
    readers: Mapping[str, tuple[str, ...]]  # by operation, those that read its output
    datasets: tuple[RecordedGeneration, ...]


def record(lineage: Lineage, about: str = "recorded from a catalog") -> dict[str, Any]:
    """Export the committed generations of a catalog, as they would be without retirement and persisting.

    Reads are counted by the operations that read a generation; reads beyond those count at its last one.
    """
    selected = [d for d in lineage.datasets.values() if d.phase is Phase.COMMITTED or d.committed_at is not None]
    selected.sort(key=lambda d: (_committed(d), d.ref))
    selected_refs = {d.ref for d in selected}
    first = min((_committed(d) - (d.compute_seconds or 0.0) for d in selected), default=0.0)
    names = {d.call.name for d in selected if d.call}
    return {
        "about": about,
        "operations": [
            {
                "name": o.name,
                "version": o.version,
                "idempotent": o.idempotent and not o.nondeterministic,
                "reads": sorted(source for source, readers in lineage.readers.items() if o.name in readers),
            }
            for _, o in sorted(lineage.operations.items())
            if o.name in names
        ],
        "datasets": [
            {
                "path": d.ref.path,
                "generation": d.ref.generation,
                "committed_at": round(_committed(d) - first, 3),
                "seconds": round(d.compute_seconds or 0.0, 3),
                "bytes": d.bytes,
                "operation": d.call.name if d.call else None,
                "version": d.call.version if d.call else None,
                "sources": [str(source) for source in d.sources if source in selected_refs],
                "read_at": [round(at - first, 3) for at in _reads(d, lineage, selected_refs)],
                "persist_requested": d.persist_requested,
                "checkpoint": d.checkpoint,
            }
            for d in selected
        ],
    }


def read(recorded: Mapping[str, Any]) -> Recording:
    """Read what `record` gives; raises `ValueError` if it is not in order of commit, sources first."""
    operations = tuple(Operation(o["name"], o["version"], o["idempotent"], repeats=1) for o in recorded["operations"])
    readers: dict[str, tuple[str, ...]] = {}
    for o in recorded["operations"]:
        for source in o["reads"]:
            readers[source] = (*readers.get(source, ()), o["name"])
    datasets = tuple(
        RecordedGeneration(
            ref=Ref(d["path"], d["generation"]),
            committed_at=d["committed_at"],
            seconds=d["seconds"],
            bytes=d["bytes"],
            call=Call(d["operation"], d["version"]) if d["operation"] else None,
            sources=tuple(Ref.parse(source) for source in d["sources"]),
            read_at=tuple(d["read_at"]),
            persist_requested=d["persist_requested"],
            checkpoint=d["checkpoint"],
        )
        for d in recorded["datasets"]
    )
    earlier_refs: set[Ref] = set()
    before = 0.0
    for generation in datasets:
        if not earlier_refs.issuperset(generation.sources) or generation.committed_at < before:
            raise ValueError(f"{generation.ref} is recorded before a source of it, or out of the order of commit")
        earlier_refs.add(generation.ref)
        before = generation.committed_at
    return Recording(recorded["about"], operations, readers, datasets)


def load(path: Path) -> Recording:
    """Read a file of recorded lineage."""
    return read(json.loads(path.read_text()))


def save(recorded: Mapping[str, Any], path: Path) -> None:
    """Write a file of recorded lineage, one dataset a line."""
    lines = ",\n  ".join(json.dumps(d, ensure_ascii=False) for d in recorded["datasets"])
    operations = ",\n  ".join(json.dumps(o, ensure_ascii=False) for o in recorded["operations"])
    about = json.dumps(recorded["about"], ensure_ascii=False)
    path.write_text(f'{{"about": {about},\n "operations": [\n  {operations}],\n "datasets": [\n  {lines}]}}\n')


def _committed(dataset: Dataset) -> float:
    return dataset.committed_at or dataset.created_at


def _reads(dataset: Dataset, lineage: Lineage, selected_refs: set[Ref]) -> list[float]:
    readers = [lineage.datasets[d] for d in lineage.dependents(dataset.ref) if d in selected_refs]
    times = [max(_committed(d) - (d.compute_seconds or 0.0), _committed(dataset)) for d in readers]
    others = max(dataset.reads - len(times), 0)
    return sorted(times + [dataset.last_used_at] * others)
