"""All live generations in memory, by template and partition, brought up to date by what changed since the last time.

Reading 100,000 generations from the catalog takes more than a second; reading what changed meanwhile, milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from threading import RLock

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.live_generations import ChangeMark, LiveChanges, LiveRow, OperationRow
from springline.persistence.model.dataset import DatasetStatus, status_of
from springline.persistence.model.path_partition import PathPartition, partition_of_run, split_path

_UNKNOWN = OperationRow(repeatable=False, proven=False, output="")


class Recovery(IntEnum):
    """How an unpersisted generation would be restored if its bytes were lost; the greater, the worse."""

    RECOMPUTABLE = 0
    UNPROVEN = 1  # by operations of which at least one is only declared idempotent
    IRRECOVERABLE = 2


@dataclass(slots=True)
class Template:
    """The live generations of one path template, by partition; a partition without a time or a value is empty.

    `cells`: the generation that readers see, or the newest that is being written. `dag_ids`: how many each DAG made.
    """

    name: str
    members: dict[str, list[int]] = field(default_factory=dict)
    cells: dict[str, int] = field(default_factory=dict)
    dag_ids: Counter[str] = field(default_factory=Counter)


class LiveIndex:
    """The index of one catalog; hold `lock` while reading its attributes.

    `statuses`: as `Dataset.status` has them. `recoveries`: of the generations that are not persisted. `pinned` and
    `checkpoints`: the keys of these. `edges`: how many generations of the second template, made
    by the DAG, have a source in the first. `stale`: generations made from one that is superseded now.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.lock = RLock()
        self._clear()

    def _clear(self) -> None:
        """Forget everything."""
        self.rows: dict[int, LiveRow] = {}
        self.places: dict[int, PathPartition] = {}
        self.keys_by_path: dict[str, list[int]] = {}
        self.templates: dict[str, Template] = {}
        self.statuses: dict[int, DatasetStatus] = {}
        self.pinned: set[int] = set()
        self.checkpoints: set[int] = set()
        self.recoveries: dict[int, Recovery] = {}
        self.edges: Counter[tuple[str, str, str]] = Counter()
        self.operations: Mapping[tuple[str, str], OperationRow] = {}
        self._sources: dict[int, tuple[int, ...]] = {}
        self._edges_of: dict[int, tuple[tuple[str, str, str], ...]] = {}
        self._children: dict[int, list[int]] = {}
        self._outdated: set[int] = set()
        self._unpersisted: set[int] = set()
        self._mark: ChangeMark | None = None

    def refresh(self) -> None:
        """Read what changed in the catalog since the last call; everything at the first one."""
        with self.lock:
            changes = self.catalog.changed_generations(self._mark) if self._mark else self.catalog.live_generations()
            if self._mark and _outputs(changes.operations, self.operations) != _outputs(self.operations):
                self._clear()  # a template changed: places are no longer right
                changes = self.catalog.live_generations()
            is_changed = bool(changes.rows) or changes.operations != self.operations
            self.operations = changes.operations
            self._mark = changes.mark
            if is_changed:
                self._apply(changes)

    def exposed(self) -> Iterator[LiveRow]:
        """Yield the committed generations whose only bytes are in the cache."""
        for key in self._unpersisted:
            row = self.rows[key]
            if row.phase == "committed" and row.cache == "present":
                yield row

    def unavailable(self) -> Iterator[LiveRow]:
        """Yield the committed generations of which no bytes are left."""
        for key in self._unpersisted:
            row = self.rows[key]
            if row.phase == "committed" and row.cache in ("lost", "evicted"):
                yield row

    def stale(self) -> set[int]:
        """Return the generations made from one that is superseded now."""
        return {child for key in self._outdated for child in self._children.get(key, ()) if child in self.rows}

    def place_of(self, path: str, generation: int | None = None) -> PathPartition | None:
        """Return the place of a generation, of the youngest one if none is given; None if it is not live."""
        keys = self.keys_by_path.get(path, ())
        if generation is not None:
            keys = [key for key in keys if self.rows[key].generation == generation]
        return self.places[max(keys)] if keys else None

    def is_cell(self, key: int) -> bool:
        """Whether readers see this generation of its path."""
        template, partition = self.places[key]
        return self.templates[template].cells[partition] == key

    # ---- changes

    def _apply(self, changes: LiveChanges) -> None:
        touched: set[PathPartition] = set()
        for row in sorted(changes.rows):
            if row.id in self.rows:
                touched.add(self._remove(row.id))
            if row.phase in ("open", "committed"):
                touched.add(self._add(row, changes.sources.get(row.id, ())))
        for place in touched:
            self._choose_cell(place)
        self._assess()

    def _add(self, row: LiveRow, sources: Iterable[int]) -> PathPartition:
        operation = self.operations.get((row.operation or "", row.version or ""), _UNKNOWN)
        place = split_path(row.path, operation.output)
        if not place.partition:
            place = place._replace(partition=partition_of_run(row.run_id))
        key = row.id
        self.rows[key] = row
        self.places[key] = place
        self.keys_by_path.setdefault(row.path, []).append(key)
        template = self.templates.get(place.template)
        if template is None:
            template = self.templates[place.template] = Template(place.template)
        template.members.setdefault(place.partition, []).append(key)
        template.dag_ids[row.dag_id] += 1
        self._sources[key] = tuple(sources)
        for source in self._sources[key]:
            self._children.setdefault(source, []).append(key)
        origins = {self.places[source].template for source in self._sources[key] if source in self.places}
        self._edges_of[key] = tuple((origin, place.template, row.dag_id) for origin in origins)
        self.edges.update(self._edges_of[key])
        if row.under != "present":
            self._unpersisted.add(key)
        else:
            self.statuses[key] = status_of(row.phase, row.cache, row.under)
        if row.pinned:
            self.pinned.add(key)
        if row.checkpoint:
            self.checkpoints.add(key)
        return place

    def _remove(self, key: int) -> PathPartition:
        row, place = self.rows.pop(key), self.places.pop(key)
        self.keys_by_path[row.path].remove(key)
        if not self.keys_by_path[row.path]:
            del self.keys_by_path[row.path]
        template = self.templates[place.template]
        template.members[place.partition].remove(key)
        template.dag_ids[row.dag_id] -= 1
        for source in self._sources.pop(key):
            self._children[source].remove(key)
        for edge in self._edges_of.pop(key):
            self.edges[edge] -= 1
        for keys in (self._unpersisted, self._outdated, self.pinned, self.checkpoints):
            keys.discard(key)
        self.statuses.pop(key, None)
        return place

    def _choose_cell(self, place: PathPartition) -> None:
        """Choose which generation of a partition is shown; a template without any is dropped."""
        template = self.templates[place.template]
        members = template.members[place.partition]
        if not members:
            del template.members[place.partition]
            template.cells.pop(place.partition, None)
            if not template.members:
                del self.templates[place.template]
            return
        shown = max(members, key=self._rank)
        template.cells[place.partition] = shown
        self._outdated.update(key for key in members if key != shown and self.rows[key].phase == "committed")
        self._outdated.discard(shown)

    def _rank(self, key: int) -> tuple[bool, bool, int]:
        row = self.rows[key]
        return row.phase == "committed", not row.superseded, row.generation

    def _assess(self) -> None:
        """Find how each unpersisted generation would be restored; a source has a smaller key than what it made."""
        recoveries: dict[int, Recovery] = {}
        unrestorable: set[int] = set()
        for key in sorted(self._unpersisted):
            row, sources = self.rows[key], self._sources[key]
            operation = self.operations.get((row.operation or "", row.version or ""), _UNKNOWN)
            recoveries[key] = self._recovery(operation, sources, recoveries)
            is_available = row.cache in ("present", "writing")
            if not is_available and not (
                operation.repeatable and all(each in self.rows and each not in unrestorable for each in sources)
            ):
                unrestorable.add(key)
        self.recoveries = recoveries
        for key in recoveries:
            row = self.rows[key]
            self.statuses[key] = status_of(row.phase, row.cache, row.under, recomputable=key not in unrestorable)

    def _recovery(
        self, operation: OperationRow, sources: Iterable[int], recoveries: Mapping[int, Recovery]
    ) -> Recovery:
        """Return how a generation would be restored after a loss of the cache, given that of its sources."""
        if not operation.repeatable:
            return Recovery.IRRECOVERABLE
        worst = Recovery.RECOMPUTABLE if operation.proven else Recovery.UNPROVEN
        for source in sources:
            if source in recoveries:
                if not self._is_being_written(source):
                    worst = max(worst, recoveries[source])
            elif source not in self.rows:
                return Recovery.IRRECOVERABLE
        return worst

    def _is_being_written(self, key: int) -> bool:
        """Whether a generation is open and its bytes are there: its writer handles their loss."""
        return self.rows[key].phase == "open" and self.rows[key].cache == "present"


def _outputs(
    operations: Mapping[tuple[str, str], OperationRow], only: Mapping[tuple[str, str], OperationRow] | None = None
) -> dict[tuple[str, str], str]:
    """Return the path template of each operation, or of those that are in `only` too."""
    return {key: row.output for key, row in operations.items() if only is None or key in only}


class IndexCache:
    """The index of the catalog in use; another catalog gets a new one."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._index: LiveIndex | None = None

    def of(self, catalog: Catalog) -> LiveIndex:
        """Return the index of a catalog, up to date."""
        with self._lock:
            if self._index is None or self._index.catalog is not catalog:
                self._index = LiveIndex(catalog)
            index = self._index
        index.refresh()
        return index
