"""Data at risk over HTTP: what a loss of the cache would cost now and what would make it safe, and its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Query

from springline.airflow.api.access import ReadAccess, ReadAccessDep
from springline.airflow.api.datasets import PlatformDep, name_redactor
from springline.airflow.api.persister import no_claim_reason
from springline.airflow.api.readable_queue import load_readable_queue
from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.lineage.remedies import (
    Remedy,
    irrecoverable_alternative,
    remedy_sentence,
    unproven_alternative,
)
from springline.airflow.lineage.risks import DagShare, Risks, RiskTotals, dag_shares, exposed_datasets, sum_risk
from springline.persistence.catalog.cache_loss import CacheLoss
from springline.persistence.catalog.risk_samples import RiskSample
from springline.persistence.catalog.wait_report import load_active_transfers, load_claim_states
from springline.persistence.decisions.persist_status import PersistState, QueuePlace, persist_status
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform

_MOST_DATASETS = 500

router = APIRouter(tags=["datasets"])


@dataclass(frozen=True, slots=True)
class RiskHistory:
    """Samples of the risk, the newest last, and the DAGs that had a share in `worst`, the worst of them.

    `worst` is the one with most irrecoverable bytes, then unproven bytes, then seconds; null if nothing was at risk.
    """

    samples: Sequence[RiskSample]
    worst: RiskSample | None
    worst_dags: Sequence[DagShare]


@router.get("/at-risk")
def at_risk(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    session: SessionDep,
    limit: Annotated[
        int, Query(ge=1, le=_MOST_DATASETS, description="Maximum number of datasets to list, worst first")
    ] = 100,
) -> Risks:
    """Return what you may read and would be lost, or have to be recomputed, if the cache were lost now."""
    catalog = platform.catalog
    away = platform.watch.unavailable_reason()
    loss = catalog.cache_loss(ignore_under_store=bool(away))
    costs = catalog.load_cost_model_of(loss.unmeasured_operations)
    totals = sum_risk(loss, costs, read_access.may_read_dag, limit=limit)
    lineage = redact_hidden(catalog.lineage_without_sources(totals.named_keys(loss)), read_access.may_read)
    queue = load_readable_queue(platform, read_access) if totals.datasets else None
    is_idle = queue is not None and bool(queue.transfers) and not away and not load_active_transfers(catalog)
    remedies = _remedies(platform, read_access, totals, loss, lineage, queue.places() if queue else {}, away)
    total = totals.total
    return Risks(
        timestamp=catalog.now(),
        under_store_away=away,
        wait_reason=no_claim_reason(session) if is_idle else "",
        bytes=total.bytes,
        recomputable_bytes=total.bytes - total.irrecoverable_bytes - total.unproven_bytes,
        unproven_bytes=total.unproven_bytes,
        irrecoverable_bytes=total.irrecoverable_bytes,
        recompute_seconds=total.recompute_seconds,
        unmeasured=totals.unmeasured,
        datasets=totals.datasets,
        dags=totals.shares,
        exposed_datasets=exposed_datasets(totals, loss, costs, lineage, read_access.may_read_dag, remedies),
    )


@router.get("/at-risk/history")
def at_risk_history(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    since: Annotated[float, Query(ge=0, le=1e11, description="Start of the history, in seconds since 1970")] = 0.0,
) -> RiskHistory:
    """Return what a loss of the cache would have cost, over time: at most one sample per minute.

    Users get the shares of the DAGs that they may read, summed up, so that no dataset is named. Only users who may
    read every DAG get the whole, including data that no DAG wrote.
    """
    catalog = platform.catalog
    dag_ids = read_access.readable_dags(catalog.risk_dag_ids())
    samples = catalog.risk_since(since, dag_ids=dag_ids)
    worst = max(samples, key=lambda sample: sample.severity, default=None)
    if worst is None or not worst.bytes:
        return RiskHistory(samples, None, [])
    return RiskHistory(samples, worst, dag_shares(catalog.risk_shares(worst.timestamp, dag_ids)))


def _remedies(
    platform: Platform,
    read_access: ReadAccess,
    totals: RiskTotals,
    loss: CacheLoss,
    lineage: Lineage,
    places: Mapping[Ref, QueuePlace],
    away: str,
) -> dict[Ref, Remedy]:
    """Return what would make each of the worst datasets safe; `places` are those in the queue."""
    refs = dict(zip(totals.named_keys(loss), lineage.datasets, strict=True))
    worst_refs = [refs[key] for key in totals.worst_keys]
    claims = load_claim_states(platform.catalog, worst_refs)
    doubts_by_key = {
        key: [each for doubt in loss.unproven_causes[key] if (each := lineage.operation_of(refs[doubt]))]
        for key in totals.worst_keys
    }
    doubted = {(each.name, each.version) for doubts in doubts_by_key.values() for each in doubts}
    prove = partial(
        unproven_alternative,
        plans=platform.prover.plan(only=doubted) if doubted else (),
        is_prover_enabled=platform.prover.enabled,
    )
    remedies = {}
    for key in totals.worst_keys:
        ref = refs[key]
        status = persist_status(lineage.datasets[ref], claims[ref], places.get(ref, QueuePlace()), away=away)
        remedies[ref] = Remedy(
            state=status.state,
            sentence=remedy_sentence(status, away),
            alternative=irrecoverable_alternative(ref, [refs[cause] for cause in loss.causes[key]], lineage)
            or prove(dict.fromkeys(doubts_by_key[key])),
            can_expedite=status.can_expedite,
            refusal=read_access.change_refusal(lineage.datasets[ref]) if status.can_expedite else "",
        )
    failing = (PersistState.RETRYING, PersistState.QUEUED, PersistState.NOT_REQUESTED)  # their sentences quote errors
    texts = [each.sentence for each in remedies.values() if each.state in failing]
    redact_names = name_redactor(platform, read_access, texts)
    return {ref: replace(each, sentence=redact_names(each.sentence)) for ref, each in remedies.items()}
