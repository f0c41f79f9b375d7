"""The lineage by path template: one node a template, the states of its generations by partition, edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from springline.airflow.lineage.live_index import LiveIndex, Recovery, Template
from springline.airflow.lineage.strips import LETTERS, NOTHING, mark_missing, merge_strips, shape_of
from springline.persistence.catalog.live_generations import LiveRow
from springline.persistence.model.dataset import DatasetStatus

SHOWN_PARTITIONS = 60  # columns of a strip, unless a range is requested
MAX_PARTITIONS = 400
MAX_BROKEN = 100
_BROKEN = (DatasetStatus.LOST, DatasetStatus.IRRECOVERABLE)


@dataclass(frozen=True, slots=True)
class LineageFilter:
    """Which generations are drawn; empty fields do not restrict.

    `first` and `last` limit the partitions of the strips, both inclusive. `status`: only templates with a generation
    of this status among these partitions.
    """

    dag_id: str = ""
    run_ids: frozenset[str] = frozenset()
    task_id: str = ""
    prefix: str = ""
    status: DatasetStatus | None = None
    first: str = ""
    last: str = ""

    def accepts(self, row: LiveRow) -> bool:
        """Whether a generation is drawn."""
        return (
            (not self.dag_id or row.dag_id == self.dag_id)
            and (not self.run_ids or row.run_id in self.run_ids)
            and (not self.task_id or row.task_id == self.task_id)
            and row.path.startswith(self.prefix)
        )

    @property
    def is_by_dag_only(self) -> bool:
        """Whether all generations of a DAG are accepted, or none of them."""
        return not (self.run_ids or self.task_id or self.prefix)


@dataclass(frozen=True, slots=True)
class NewestCell:
    """The youngest generation of a template."""

    path: str
    generation: int
    partition: str
    status: DatasetStatus
    bytes: int
    timestamp: float  # when it was committed, or opened


@dataclass(frozen=True, slots=True)
class TemplateNode:
    """A path template, or a group of them (`templates` > 1, `is_group`).

    `strip` has one letter for each of the overview's partitions: w writing, c cached, g persisting, p persisted, e
    evicted, l lost, x irrecoverable, m missing (other templates of the DAG have it), `.` none; a group's is the worst.
    `undated` is the letter of a generation without a partition. `states` counts all generations, in the strip or not.
    `exposed_bytes` are only in the cache; `unproven_bytes` and `irrecoverable_bytes` are parts of them.
    """

    key: str
    label: str
    is_group: bool
    group: str
    templates: int
    operation: str
    dag_id: str
    task_id: str
    strip: str
    undated: str
    states: Mapping[str, int]
    newest: NewestCell | None
    exposed_bytes: int = 0
    unproven_bytes: int = 0
    irrecoverable_bytes: int = 0
    stale: int = 0
    pinned: int = 0
    checkpoints: int = 0
    layer: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class TemplateEdge:
    """From the template of a source to the template of what was made from it."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class BrokenPartition:
    """A partition with unavailable generations: how many are lost, how many irrecoverable, and the template of one.

    `dag_ids`: the DAGs that made them.
    """

    partition: str
    lost: int
    irrecoverable: int
    template: str
    dag_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class TemplateGraph:
    """Templates and edges, and the partitions that their strips show, the oldest first.

    `earlier`, `later`: how many partitions are left out before and after. `overall`: the worst state of each partition.
    `broken`: partitions with lost generations, the newest first, at most 100 of `broken_count`.
    """

    partitions: Sequence[str]
    earlier: int
    later: int
    overall: str
    broken: Sequence[BrokenPartition]
    broken_count: int
    nodes: Sequence[TemplateNode]
    edges: Sequence[TemplateEdge]


@dataclass(slots=True)
class _Drawn:
    """A template with the generations of it that are drawn."""

    template: Template
    cells: Mapping[str, int]
    exposed_bytes: Counter[Recovery] = field(default_factory=Counter)  # only in the cache, by what a loss would mean


def build_template_graph(
    index: LiveIndex, filters: LineageFilter, may_read_dag: Callable[[str], bool]
) -> TemplateGraph:
    """Return the templates of the generations that `filters` and `may_read_dag` accept; the layout is not set."""
    with index.lock:
        drawn = {
            name: _Drawn(template, cells)
            for name, template in index.templates.items()
            if (cells := _accepted_cells(index, template, filters, may_read_dag))
        }
        shown, earlier, later = _axis(drawn.values(), filters)
        broken = _broken(index, drawn)
        _measure_exposure(index, drawn)
        nodes = _nodes(index, drawn, shown)
        if filters.status:
            letter = LETTERS[filters.status]
            nodes = [node for node in nodes if letter in node.strip or letter == node.undated]
        names = {node.key for node in nodes}
        edges = dict.fromkeys(
            TemplateEdge(source, target)
            for (source, target, dag_id), count in index.edges.items()
            if count > 0 and source != target and source in names and target in names and may_read_dag(dag_id)
        )
    return TemplateGraph(
        shown, earlier, later, merge_strips([node.strip for node in nodes], len(shown)), broken[:MAX_BROKEN],
        len(broken), nodes, list(edges),
    )  # fmt: skip


def _accepted_cells(
    index: LiveIndex, template: Template, filters: LineageFilter, may_read_dag: Callable[[str], bool]
) -> Mapping[str, int]:
    """Return the generations of a template that are drawn, by partition."""
    dag_ids = [dag_id for dag_id, count in template.dag_ids.items() if count > 0]
    accepted = [d for d in dag_ids if may_read_dag(d) and (not filters.dag_id or d == filters.dag_id)]
    if not accepted:
        return {}
    if len(accepted) == len(dag_ids) and filters.is_by_dag_only:
        return template.cells
    rows = index.rows
    return {
        partition: key
        for partition, key in template.cells.items()
        if rows[key].dag_id in accepted and filters.accepts(rows[key])
    }


def _axis(drawn: Iterable[_Drawn], filters: LineageFilter) -> tuple[list[str], int, int]:
    """Return the partitions that the strips show, and how many are left out before and after them."""
    every = sorted(set().union(*(each.cells for each in drawn)) - {""})
    inside = [
        p
        for p in every
        if (not filters.first or p >= filters.first)
        and (not filters.last or p <= filters.last or p.startswith(filters.last))
    ]
    most = MAX_PARTITIONS if filters.first else SHOWN_PARTITIONS
    shown = inside[-most:]
    if not shown:
        return [], len(every), 0
    start = every.index(shown[0])
    return shown, start, len(every) - start - len(shown)


def _broken(index: LiveIndex, drawn: Mapping[str, _Drawn]) -> list[BrokenPartition]:
    """Return the partitions of which drawn generations are unavailable, the newest first."""
    unavailable: dict[str, list[tuple[DatasetStatus, LiveRow]]] = {}
    for row in index.unavailable():
        status = index.statuses[row.id]
        if status in _BROKEN and _drawn_with(index, drawn, row.id):
            unavailable.setdefault(index.places[row.id].partition, []).append((status, row))
    broken = []
    for partition in sorted(unavailable, reverse=True):
        counts = Counter(status for status, _ in unavailable[partition])
        _, worst = max(unavailable[partition], key=lambda pair: (pair[0] is DatasetStatus.IRRECOVERABLE, -pair[1].id))
        broken.append(
            BrokenPartition(
                partition, counts[DatasetStatus.LOST], counts[DatasetStatus.IRRECOVERABLE],
                index.places[worst.id].template, sorted({row.dag_id for _, row in unavailable[partition]}),
            )
        )  # fmt: skip
    return broken


def _measure_exposure(index: LiveIndex, drawn: Mapping[str, _Drawn]) -> None:
    for row in index.exposed():
        if each := _drawn_with(index, drawn, row.id):
            each.exposed_bytes[index.recoveries[row.id]] += row.bytes


def _drawn_with(index: LiveIndex, drawn: Mapping[str, _Drawn], key: int) -> _Drawn | None:
    """Return the template of a generation if both are drawn."""
    template, partition = index.places[key]
    each = drawn.get(template)
    return each if each and each.cells.get(partition) == key else None


def _nodes(index: LiveIndex, drawn: Mapping[str, _Drawn], shown: Sequence[str]) -> list[TemplateNode]:
    rows, status_by_key, stale = index.rows, index.statuses, index.stale()
    expected = _expected_partitions(index, drawn.values(), shown)
    nodes = []
    for name, each in sorted(drawn.items()):
        keys = each.cells.values()
        newest = rows[max(keys)]
        strip = "".join(
            LETTERS[status_by_key[each.cells[partition]]] if partition in each.cells else NOTHING for partition in shown
        )
        if gaps := expected.get((newest.dag_id, shape_of(index.places[newest.id].partition))):
            strip = mark_missing(strip, shown, gaps)
        nodes.append(
            TemplateNode(
                key=name, label=name, is_group=False, group="", templates=1, operation=newest.operation or "",
                dag_id=newest.dag_id, task_id=newest.task_id, strip=strip,
                undated=LETTERS[status_by_key[each.cells[""]]] if "" in each.cells else "",
                states={status.value: count for status, count in Counter(map(status_by_key.__getitem__, keys)).items()},
                newest=NewestCell(
                    newest.path, newest.generation, index.places[newest.id].partition, status_by_key[newest.id],
                    newest.bytes, newest.committed_at or newest.created_at,
                ),
                exposed_bytes=each.exposed_bytes.total(),
                unproven_bytes=each.exposed_bytes[Recovery.UNPROVEN],
                irrecoverable_bytes=each.exposed_bytes[Recovery.IRRECOVERABLE],
                stale=len(stale.intersection(keys)) if stale else 0,
                pinned=len(index.pinned.intersection(keys)) if index.pinned else 0,
                checkpoints=len(index.checkpoints.intersection(keys)) if index.checkpoints else 0,
            )
        )  # fmt: skip
    return nodes


def _expected_partitions(
    index: LiveIndex, drawn: Iterable[_Drawn], shown: Sequence[str]
) -> dict[tuple[str, str], set[str]]:
    """Return the partitions that any template of a DAG has, by DAG and by the shape of a partition."""
    expected: dict[tuple[str, str], set[str]] = {}
    for each in drawn:
        for partition in shown:
            if key := each.cells.get(partition):
                expected.setdefault((index.rows[key].dag_id, shape_of(partition)), set()).add(partition)
    return expected
