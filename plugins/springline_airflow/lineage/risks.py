"""Cost of a loss of the cache, dataset by dataset, irrecoverable ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from springline.persistence.catalog.cache_loss import CacheLoss
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class ExposedDataset:
    """A generation whose only bytes are in the cache.

    `irrecoverable_reasons` is empty if it could be recomputed, `unproven_reasons` if the operations for that are
    proven. `is_unreachable_copy`: according to the catalog it has a copy in the under-store, which does not respond.
    """

    path: str
    generation: int
    bytes: int
    seconds: float | None  # to run its operation again; None: irrecoverable, or never measured
    irrecoverable_reasons: Sequence[str]
    unproven_reasons: Sequence[str]
    is_queued: bool  # in the queue
    is_unreachable_copy: bool
    dag_id: str
    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Risks:
    """Cost of a loss of the whole cache now; the seconds are the sum of all recomputations, run one after another.

    Recomputable bytes are restored by proven operations; unproven ones only if an operation is idempotent as declared.

    `under_store_away`: why the copies in the under-store do not count; empty if it responds.
    """

    under_store_away: str
    bytes: int
    recomputable_bytes: int
    unproven_bytes: int
    recompute_seconds: float
    irrecoverable_bytes: int
    datasets: int
    exposed_datasets: Sequence[ExposedDataset]


@dataclass(frozen=True, slots=True)
class RiskTotals:
    """Total risk of the datasets that a user may read.

    `worst_keys`: catalog keys, first the irrecoverable, then the unproven, then the largest.
    """

    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float
    datasets: int
    worst_keys: Sequence[int]

    def named_keys(self, loss: CacheLoss) -> list[int]:
        """Return the keys to look up by name: the worst, and the causes of their reasons; each once."""
        return list(
            dict.fromkeys(
                (
                    *self.worst_keys,
                    *(first for key in self.worst_keys for first in (*loss.causes[key], *loss.unproven_causes[key])),
                )
            )
        )


def sum_risk(loss: CacheLoss, costs: CostModel, may_read_dag: Callable[[str], bool], *, limit: int) -> RiskTotals:
    """Sum up the outputs of the DAGs that `may_read_dag` accepts, and select the worst, at most `limit`."""
    rows, causes, doubts = loss.rows, loss.causes, loss.unproven_causes
    readable_keys = [key for key in loss.exposed if may_read_dag(rows[key].dag_id)]
    recompute_seconds = (loss.predict_seconds(key, costs) for key in loss.rerun_order(readable_keys))
    return RiskTotals(
        bytes=sum(rows[key].bytes for key in readable_keys),
        unproven_bytes=sum(rows[key].bytes for key in readable_keys if doubts[key]),
        irrecoverable_bytes=sum(rows[key].bytes for key in readable_keys if causes[key]),
        recompute_seconds=sum(seconds for seconds in recompute_seconds if seconds),
        datasets=len(readable_keys),
        worst_keys=nsmallest(
            limit, readable_keys, key=lambda key: (not causes[key], not doubts[key], -rows[key].bytes, key)
        ),
    )


def risks_of(totals: RiskTotals, loss: CacheLoss, costs: CostModel, lineage: Lineage, away: str) -> Risks:
    """Return the risk with names and reasons; `lineage` contains the keys that `totals` names, in that order."""
    refs = dict(zip(totals.named_keys(loss), lineage.datasets, strict=True))
    exposed_datasets = []
    for key in totals.worst_keys:
        dataset = lineage.datasets[refs[key]]
        irrecoverable_reasons = [lineage.repeat_obstacle(refs[cause]) for cause in loss.causes[key]]
        unproven_reasons = [lineage.unproven_reason(refs[doubt]) for doubt in loss.unproven_causes[key]]
        exposed_datasets.append(
            ExposedDataset(
                path=dataset.ref.path,
                generation=dataset.ref.generation,
                bytes=dataset.bytes,
                seconds=None if irrecoverable_reasons else loss.predict_seconds(key, costs),
                irrecoverable_reasons=[
                    reason for reason in irrecoverable_reasons if reason
                ],  # empty: it was made repeatable meanwhile
                unproven_reasons=[reason for reason in unproven_reasons if reason],
                is_queued=dataset.persist_requested,
                is_unreachable_copy=dataset.persisted,
                dag_id=dataset.origin.dag_id,
                run_id=dataset.origin.run_id,
                task_id=dataset.origin.task_id,
            )
        )
    return Risks(
        under_store_away=away,
        bytes=totals.bytes,
        recomputable_bytes=totals.bytes - totals.irrecoverable_bytes - totals.unproven_bytes,
        unproven_bytes=totals.unproven_bytes,
        recompute_seconds=totals.recompute_seconds,
        irrecoverable_bytes=totals.irrecoverable_bytes,
        datasets=totals.datasets,
        exposed_datasets=exposed_datasets,
    )
