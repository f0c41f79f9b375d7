"""Records a lineage that a test made up in a catalog, as it is, whatever way led there."""

from __future__ import annotations

from sqlalchemy import delete, insert

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.schema import generation, operation, source
from springline.persistence.model.lineage import Lineage


def record(catalog: Catalog, lineage: Lineage) -> None:
    """Let the catalog hold this lineage and nothing else; sources that are not in it are left out."""
    number = {ref: key for key, ref in enumerate(lineage.datasets, start=1)}
    rows, sources = [], []
    for ref, dataset in lineage.datasets.items():
        rows.append({
            "id": number[ref], "path": ref.path, "generation": ref.generation, "phase": dataset.phase.value,
            "cache": dataset.cache.value, "under": dataset.under.value, "bytes": dataset.bytes,
            "strategy": dataset.strategy.value, "persist_requested": dataset.persist_requested,
            "checkpoint": dataset.checkpoint,
            "pinned": dataset.pinned, "operation": dataset.call.name if dataset.call else None,
            "version": dataset.call.version if dataset.call else None, "params": {}, "dag_id": dataset.origin.dag_id,
            "run_id": dataset.origin.run_id, "task_id": dataset.origin.task_id,
            "compute_seconds": dataset.compute_seconds,
            "superseded": dataset.superseded, "created_at": dataset.created_at,
        })  # fmt: skip
        recorded_sources = [number[each] for each in dataset.sources if each in number]
        sources += [
            {"generation_id": number[ref], "position": i, "source_id": key} for i, key in enumerate(recorded_sources)
        ]
    operations = [
        {"name": o.name, "version": o.version, "idempotent": o.idempotent, "checkpoint": o.checkpoint,
         "runnable": o.runnable, "nondeterministic": o.nondeterministic, "repeats": o.repeats, "reads": list(o.reads)}
        for o in lineage.operations.values()
    ]  # fmt: skip
    with catalog.write_transaction() as connection:
        for table in (source, generation, operation):
            connection.execute(delete(table))
        for table, values in ((generation, rows), (source, sources), (operation, operations)):
            if values:
                connection.execute(insert(table), values)
