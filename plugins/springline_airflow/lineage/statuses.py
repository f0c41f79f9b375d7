"""The status of many generations: what no store has is irrecoverable if what is left cannot restore it."""

from __future__ import annotations

from collections.abc import Collection

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.model.dataset import Dataset, DatasetStatus, Phase, Ref


def statuses_of(catalog: Catalog, datasets: Collection[Dataset]) -> dict[Ref, DatasetStatus]:
    """Return the status of each generation by name; the lineage is loaded only of those that no store has."""
    missing = [each.ref for each in datasets if each.phase is Phase.COMMITTED and not each.available]
    lineage = catalog.lineage_around(missing, down=False) if missing else None
    return {each.ref: each.status(recomputable=lineage is None or lineage.is_restorable(each.ref)) for each in datasets}
