"""The status of many generations: what no store has is irrecoverable if its lineage cannot recompute it."""

from __future__ import annotations

from collections.abc import Collection

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.model.dataset import Dataset, DatasetStatus, Phase, Ref


def statuses_of(catalog: Catalog, datasets: Collection[Dataset]) -> dict[Ref, DatasetStatus]:
    """Return the status of each generation by name; the lineage is loaded only of those that no store has."""
    missing = [each.ref for each in datasets if each.phase is Phase.COMMITTED and not each.available]
    obstacles = catalog.lineage_around(missing, down=False).recompute_obstacles_by_ref(missing) if missing else {}
    return {each.ref: each.status(recomputable=not obstacles.get(each.ref)) for each in datasets}
