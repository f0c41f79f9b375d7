"""Cost of a loss of the cache now: three totals, the share of each DAG, and the datasets that are the worst to lose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from springline.airflow.lineage.remedies import Remedy
from springline.persistence.catalog.cache_loss import CacheLoss
from springline.persistence.catalog.risk_samples import DagRisk, risk_by_dag
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class DagShare:
    """The share of one DAG in the risk; the empty id stands for data that no DAG wrote."""

    dag_id: str
    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float


@dataclass(frozen=True, slots=True)
class ExposedDataset:
    """A generation whose only bytes are in the cache.

    `seconds`: to run its operation again; None: irrecoverable, or never measured. `dependents`: how many others that
    are not persisted would have to be recomputed from it, of those that you may read; at most 1,000 are counted.
    `irrecoverable_reasons` is empty if it could be recomputed, `unproven_reasons` if proven operations do that.
    """

    path: str
    generation: int
    bytes: int
    seconds: float | None
    dependents: int
    irrecoverable_reasons: Sequence[str]
    unproven_reasons: Sequence[str]
    remedy: Remedy
    dag_id: str
    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Risks:
    """Cost of a loss of the whole cache at `timestamp`, for what you may read; the samples of the history are the same.

    Recomputable bytes are restored by proven operations; unproven ones only if an operation is idempotent as declared.
    The seconds are the sum of all recomputations, run one after another; `unmeasured` of them were never measured and
    count as 0. `under_store_away`: why the copies in the under-store do not count; empty if it responds.
    `wait_reason`: why nothing is persisted now although something could be; empty otherwise.
    """

    timestamp: float
    under_store_away: str
    wait_reason: str
    bytes: int
    recomputable_bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float
    unmeasured: int
    datasets: int
    dags: Sequence[DagShare]
    exposed_datasets: Sequence[ExposedDataset]


@dataclass(frozen=True, slots=True)
class RiskTotals:
    """Total risk of the datasets that a user may read, and the share of each DAG, the worst first.

    `worst_keys`: catalog keys, first the irrecoverable, then the unproven, then the largest.
    """

    total: DagRisk
    shares: Sequence[DagShare]
    unmeasured: int
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


def dag_shares(shares: Mapping[str, DagRisk]) -> list[DagShare]:
    """Return the shares of the DAGs that have any, the worst first."""
    rows = [
        DagShare(dag_id, each.bytes, each.unproven_bytes, each.irrecoverable_bytes, each.recompute_seconds)
        for dag_id, each in shares.items()
        if each != DagRisk()
    ]
    return sorted(rows, key=lambda row: (-row.irrecoverable_bytes, -row.unproven_bytes, -row.bytes, row.dag_id))


def sum_risk(loss: CacheLoss, costs: CostModel, may_read_dag: Callable[[str], bool], *, limit: int) -> RiskTotals:
    """Sum up the shares of the DAGs that `may_read_dag` accepts, and select the worst datasets, at most `limit`."""
    rows, causes, doubts = loss.rows, loss.causes, loss.unproven_causes
    shares = {dag_id: share for dag_id, share in risk_by_dag(loss, costs).items() if may_read_dag(dag_id)}
    readable_keys = [key for key in loss.exposed if may_read_dag(rows[key].dag_id)]
    return RiskTotals(
        total=DagRisk(
            sum(share.bytes for share in shares.values()),
            sum(share.unproven_bytes for share in shares.values()),
            sum(share.irrecoverable_bytes for share in shares.values()),
            sum(share.recompute_seconds for share in shares.values()),
        ),
        shares=dag_shares(shares),
        unmeasured=sum(
            may_read_dag(rows[key].dag_id) and loss.predict_seconds(key, costs) is None for key in loss.reruns
        ),
        datasets=len(readable_keys),
        worst_keys=nsmallest(
            limit, readable_keys, key=lambda key: (not causes[key], not doubts[key], -rows[key].bytes, key)
        ),
    )


def exposed_datasets(
    totals: RiskTotals,
    loss: CacheLoss,
    costs: CostModel,
    lineage: Lineage,
    may_read_dag: Callable[[str], bool],
    remedies: Mapping[Ref, Remedy],
) -> list[ExposedDataset]:
    """Return the worst datasets with names and reasons; `lineage` contains the keys that `totals` names, in order."""
    refs = dict(zip(totals.named_keys(loss), lineage.datasets, strict=True))
    rows = []
    for key in totals.worst_keys:
        dataset = lineage.datasets[refs[key]]
        irrecoverable_reasons = [lineage.repeat_obstacle(refs[cause]) for cause in loss.causes[key]]
        unproven_reasons = [lineage.unproven_reason(refs[doubt]) for doubt in loss.unproven_causes[key]]
        dependents = loss.exposed_dependents(key)
        rows.append(
            ExposedDataset(
                path=dataset.ref.path,
                generation=dataset.ref.generation,
                bytes=dataset.bytes,
                seconds=None if irrecoverable_reasons else loss.predict_seconds(key, costs),
                dependents=sum(may_read_dag(loss.rows[each].dag_id) for each in dependents),
                # A reason is empty if its cause was made repeatable meanwhile.
                irrecoverable_reasons=[reason for reason in irrecoverable_reasons if reason],
                unproven_reasons=[reason for reason in unproven_reasons if reason],
                remedy=remedies[dataset.ref],
                dag_id=dataset.origin.dag_id,
                run_id=dataset.origin.run_id,
                task_id=dataset.origin.task_id,
            )
        )
    return rows
